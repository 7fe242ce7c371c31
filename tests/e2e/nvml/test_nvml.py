# SPDX-License-Identifier: Apache-2.0
"""The guest's NVML shows the bridge's devices and this guest's processes, to programs that are no clients: in Python without packages
(nvml_asks.py), in C, and as a table; it refuses to change anything, and says what is wrong where no bridge serves. A host's own table
has all of its devices, also those that no guest gets."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, LIBRARIES, TOP, Program, children, environment, need, needs_soft, run, succeed, until

pytestmark = needs_soft("tests/programs/nvml.cu has what a GPU shows")
VERSION = (TOP / "VERSION").read_text().strip()
CLIENT = BUILD / "e2e/nvml_client"
SMI = [BARCUDA, "smi"]


class Nvml:
    """A region, and the programs that ask its NVML and are no clients of its bridge."""

    def __init__(self, region):
        self.region = region
        loaded = succeed("ldd", LIBRARIES / "barcuda/libnvidia-ml.so.1")
        sanitizer = re.search(r"lib[at]san\S* => (\S+)", loaded)
        self.none = {**region.named, "LD_LIBRARY_PATH": LIBRARIES / "barcuda", **({"LD_PRELOAD": sanitizer[1]} if sanitizer else {})}

    def serve(self, *options, devices=2, **variables):
        return self.region.serve(*options, env={"BARCUDA_SOFT_DEVICES": devices, **variables})

    def run(self, *command, env=None):
        return run(*command, env={**self.none, **(env or {})})

    def asks(self, part, *words):
        ran = self.run(sys.executable, TOP / "tests/e2e/nvml/nvml_asks.py", part, *words)
        assert ran.status == 0, ran

    def background(self, *command):
        program = Program(self.region.folder, "asker", command, env=self.none)
        self.region.programs.append(program)
        return program

    @property
    def monitor(self):
        """The pid of the bridge's process that asks the host's NVML; None where there is none."""
        return next(iter(self.region.bridge.monitors()), None)

    def json(self, *command, env=None):
        ran = self.run(*(command or SMI), "--json", env=env)
        assert ran.status == 0, ran
        return json.loads(ran.out)["gpus"]

    def soon(self, wanted, *command, of="nvml_client", env=None):
        """Waits until the devices are these: (place on the bus, pids of processes that are called so), in their order."""
        def seen():
            return [(gpu["pci_bus_id"][9:11], *(p["pid"] for p in gpu["processes"] if of in f"{p['name']} {p['pid']}"))
                    for gpu in self.json(*command, env=env)]
        until(lambda: seen() == wanted, lambda: f"the devices are {wanted}, not {seen()}")


@pytest.fixture
def nvml(region):
    return Nvml(region)


@pytest.fixture(scope="module")
def ask_in_c(shared):
    """A C program that prints the driver's version and the number of devices, or NVML's status."""
    need("gcc")
    (shared / "ask.c").write_text(r"""
#include <stdio.h>
int nvmlInit_v2(void), nvmlShutdown(void), nvmlSystemGetDriverVersion(char*, unsigned), nvmlDeviceGetCount_v2(unsigned*);
int main(void) {
    char version[80];
    unsigned count = 0;
    int status = nvmlInit_v2();
    if (status) return printf("%d\n", status), 1;
    if (nvmlSystemGetDriverVersion(version, sizeof version) || nvmlDeviceGetCount_v2(&count) || nvmlShutdown()) return 2;
    printf("%s %u\n", version, count);
    return 0;
}
""")
    succeed("gcc", "-Wall", "-o", shared / "ask", shared / "ask.c", f"-L{LIBRARIES}/barcuda", "-l:libnvidia-ml.so.1")
    return shared / "ask"


def test_the_hosts_nvml_is_not_asked_before_a_guest_wants_to_know(nvml):
    nvml.serve()
    assert not nvml.monitor


@pytest.mark.parametrize("part", ["devices", "refusals", "client", "visible"])
def test_a_program_in_python_sees(nvml, part):
    nvml.serve()
    nvml.asks(part, *([CLIENT, LIBRARIES / "libbarcuda.so"] if part == "client" else []))
    # What asks NVML alone is no client of the bridge.
    assert nvml.region.log.count("client admitted") == (part == "client"), nvml.region.log


def test_a_program_in_c_sees_the_devices_and_is_no_client(nvml, ask_in_c):
    nvml.serve()
    assert nvml.run(ask_in_c).out == f"{VERSION} 2\n"
    assert "client admitted" not in nvml.region.log


ENDS_BESIDE_A_THREAD = r"""
#include <pthread.h>
#include <stdio.h>
int nvmlInit_v2(void), nvmlDeviceGetHandleByIndex_v2(unsigned, void**), nvmlDeviceGetMemoryInfo(void*, unsigned long long*);
static void* ask(void* barrier) {
    void* device;
    unsigned long long memory[3];
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || nvmlDeviceGetMemoryInfo(device, memory)) return 0;
    pthread_barrier_wait(barrier);
    for (;;) nvmlDeviceGetMemoryInfo(device, memory);
}
int main(void) {
    static char room[1 << 18], text[1 << 17];  // more than a pipe holds: exit() waits in its last flush, after all destructors
    pthread_barrier_t barrier;
    pthread_t thread;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, ask, &barrier);
    pthread_barrier_wait(&barrier);
    setvbuf(stdout, room, _IOFBF, sizeof room);
    fwrite(text, sizeof text, 1, stdout);
    return 0;
}
"""


def test_a_program_ends_while_its_thread_asks(nvml, scratch):
    need("gcc")
    nvml.serve()
    (scratch / "ends.c").write_text(ENDS_BESIDE_A_THREAD)
    succeed("gcc", "-Wall", "-o", scratch / "ends", scratch / "ends.c", f"-L{LIBRARIES}/barcuda", "-l:libnvidia-ml.so.1", "-pthread")
    program = subprocess.Popen([scratch / "ends"], env=environment(nvml.none), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.read(1), program.stderr.read()

    def ticks():
        """What its threads have used of processors; None when it is dead."""
        tasks = Path(f"/proc/{program.pid}/task")
        try:
            stats = [(tasks / task / "stat").read_text().rsplit(")", 1)[1].split() for task in os.listdir(tasks)]
        except OSError:
            return None
        return None if any(stat[0] in "ZX" for stat in stats) else sum(int(stat[11]) + int(stat[12]) for stat in stats)
    before = ticks()
    until(lambda: (now := ticks()) is None or before is None or now > before, "the thread asks on")
    program.stdout.read()
    assert program.wait() == 0, program.stderr.read()


def test_barcuda_smi_prints_a_table(nvml):
    nvml.serve()
    ran = nvml.run(*SMI)
    assert ran.status == 0, ran
    for what in (f"Driver Version: {VERSION} ", "CUDA Version: 13.0", "Barcuda software GPU", "00000000:BA:00.0", "00000000:BB:00.0",
                 "No running processes"):
        assert what in ran.out, ran
    assert {len(line) for line in ran.out.splitlines()[1:]} == {0, 91}, f"ragged lines: {ran}"


def test_barcuda_smi_prints_json(nvml):
    nvml.serve()
    gpus = nvml.json()
    assert len(gpus) == 2 and gpus[1]["memory"]["total"] > 0 and gpus[0]["temperature"] is None, gpus


def test_a_monitor_that_died_is_replaced_and_the_answers_stay(nvml, ask_in_c):
    nvml.serve()
    nvml.json()
    dead = nvml.monitor
    os.kill(dead, signal.SIGKILL)
    assert nvml.run(ask_in_c).status == 0, "no answers without a monitor"
    nvml.region.wait_for_log("the monitor has ended")

    def replaced():
        nvml.json()  # so a client asks
        return nvml.monitor not in (None, dead)
    until(replaced, "a new monitor")


def test_a_monitor_that_hangs_is_noticed_and_old_values_are_not_shown_for_new_ones(nvml, ask_in_c):
    nvml.serve()
    nvml.json()
    monitor = nvml.monitor
    os.kill(monitor, signal.SIGSTOP)
    asker = nvml.background(*SMI)
    nvml.region.wait_for_log("does not answer")
    asker.wait()
    assert nvml.run(ask_in_c).status == 0, "no answers while the monitor hangs"
    first = nvml.json()[0]
    assert first["memory"] is None and "software" in first["name"], first  # what does not change is still known
    os.kill(monitor, signal.SIGCONT)
    until(lambda: "MiB /" in nvml.run(*SMI).out, "values after the monitor came back")


def test_who_finds_no_bridge_is_told_so(nvml, ask_in_c):
    nvml.serve()
    nvml.region.stop()
    ran = nvml.run(*SMI)
    assert ran.status != 0 and ran.said.startswith("barcuda smi: no bridge serves the region"), ran
    assert nvml.run(ask_in_c).out == "9\n", "nvmlInit without a bridge"
    nowhere = nvml.region.folder / "nowhere"
    ran = run(*SMI, env={"BARCUDA_REGION": nowhere})
    assert ran.status != 0 and ran.said.startswith(f"barcuda smi: {nowhere}: there is no such region"), ran


def test_barcuda_run_gives_programs_nvml(ask_in_c):
    assert succeed(BARCUDA, "run", "--device", "soft", "--", ask_in_c, env={"BARCUDA_SOFT_DEVICES": None}) == f"{VERSION} 1\n"


# ---- --gpus: NVML's devices are those of CUDA without CUDA_VISIBLE_DEVICES, in that order --------------------------------------------
IN_THE_GUEST = [("BC",), ("BA",)]
HOSTS_SMI = [*SMI, "--device", "soft"]
WRAPPER = r"""sh -c "\"\$@\" & wait" sh"""


@pytest.fixture
def third_and_first(nvml):
    """A bridge that shows its guest two of three devices, and whose workers have a wrapper."""
    nvml.serve("--no-vm", "--gpus", "0,2", "--worker-wrapper", WRAPPER, devices=3, CUDA_VISIBLE_DEVICES="2,1,0")
    return nvml


def test_a_guest_has_the_devices_of_the_option_gpus_and_the_host_all(third_and_first):
    nvml = third_and_first
    nvml.soon(IN_THE_GUEST)
    nvml.soon(IN_THE_GUEST, env={"CUDA_VISIBLE_DEVICES": "1"})
    nvml.soon([("BA",), ("BB",), ("BC",)], *HOSTS_SMI, env={"CUDA_VISIBLE_DEVICES": "1", "BARCUDA_SOFT_DEVICES": 3})


def test_a_process_is_on_the_device_that_it_uses_also_if_its_worker_has_a_wrapper(third_and_first):
    nvml, region = third_and_first, third_and_first.region
    program = region.background("client", CLIENT, "0", env={"CUDA_VISIBLE_DEVICES": "0", "BARCUDA_SOFT_DEVICES": 3}, stdin=subprocess.PIPE)
    program.wait_for("^[0-9]")
    nvml.soon([("BC", program.pid), ("BA",)])
    worker = children(region.bridge.workers()[0])[0]  # behind its wrapper
    # (Other bridges' workers may be there, too.)
    nvml.soon([("BA",), ("BB",), ("BC", worker)], *HOSTS_SMI, of=f"barcuda-bridge {worker}", env={"BARCUDA_SOFT_DEVICES": 3})
    program.kill()
    nvml.soon(IN_THE_GUEST)


def test_a_name_is_shown_as_it_was_given_but_for_what_a_terminal_would_obey(third_and_first):
    nvml = third_and_first
    program = nvml.region.background("client", b"\x1b[31mnvml_client\xff", "0", executable=str(CLIENT), stdin=subprocess.PIPE)
    program.wait_for("^[0-9]")
    nvml.soon([("BC", program.pid), ("BA",)])
    said = nvml.run(*SMI).out
    assert "?[31mnvml_client?" in said, said


def test_a_guest_that_writes_to_its_region_sees_no_more_and_does_not_lead_the_monitor_astray(third_and_first):
    nvml, region = third_and_first, third_and_first.region
    asker = nvml.background(sys.executable, TOP / "tests/e2e/nvml/nvml_asks.py", "for_ever")  # began before: it wants to know all the time
    asker.wait_for("running")
    until(lambda: nvml.monitor, "a monitor")
    DEVICES, SNAPSHOT = 0x40000, 0x60000
    with open(region.path, "r+b", buffering=0) as file:
        def exchange(offset, new):
            old = os.pread(file.fileno(), len(new), offset)
            os.pwrite(file.fileno(), new, offset)
            return old

        def sequence():
            return os.pread(file.fileno(), 8, SNAPSHOT)
        offset = exchange(176, b"\xff" * 8)
        exchange(72, b"\x03")
        exchange(DEVICES + 256, b"BarcudaSoftGPU-1")
        dead = nvml.monitor
        os.kill(dead, signal.SIGKILL)
        until(lambda: not os.path.exists(f"/proc/{dead}"), "the monitor is gone")
        last = sequence()
        until(lambda: sequence() != last, "a new monitor writes")
        exchange(176, offset)
        exchange(72, b"\x02")
    asker.kill()
    nvml.soon(IN_THE_GUEST)
