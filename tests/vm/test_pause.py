# SPDX-License-Identifier: Apache-2.0
"""`barcuda pause` and `resume` of programs in a guest, at each door to the region; and a guest that QEMU stops and lets go on. A program
calls all the time, and asks for memory and NVML while it is paused: it goes on, and its results are right.

By hand: STOPPED=120 stops each guest for so many seconds; PAUSES=30 pauses the models so often in each guest.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, DEVICE, IS_ROOT, TOP, Program, need, run, succeed, until

PAUSES, STOPPED = int(os.environ.get("PAUSES", "0")), float(os.environ.get("STOPPED", "0"))
PROGRAM = BUILD / "e2e/pauses"
PATIENCE = 300  # an emulated guest boots for a minute where others build


class Guest:
    """A guest whose shell takes lines, in the background; its bridge is on this machine."""

    def __init__(self, folder, door, *options):
        self.vm = Program(folder, "vm", [TOP / "tests/vm/run", "--keep-log", "--transport", door, "--device", DEVICE, "--timeout", 1500, *options,
                                         "--", "bash", "-c", "mkfifo /tmp/line; exec 8<&0 9<> /tmp/line; echo booted; "
                                         'while read -r command <&8; do eval "$command"; done'],
                          env={"TMPDIR": folder, "BARCUDA_BUILD": str(BUILD), "BARCUDA_LOG": "info"}, stdin=subprocess.PIPE)
        self.folder, self.times = folder, 0

    def boot(self):
        self.says("booted")
        [self.log] = self.folder.glob("barcuda-vm.*")
        self.region = re.search(r"region (\S+) of \d+ MiB", self.bridge_log)[1]
        return self

    def says(self, pattern, count=1):
        def found():
            ended = not self.vm.runs()
            if len(re.findall(pattern, self.vm.out, re.M)) >= count:
                return True
            assert not ended, f"{pattern!r} was not said by {self.vm}"
            return False
        until(found, lambda: f"{pattern!r} is said by {self.vm}\n{self.bridge_log}", PATIENCE)

    def does(self, command):
        """The guest's shell does this, to its end: what it says."""
        self.times += 1
        before = len(self.vm.out)
        self.vm.send(f"{command}; echo did {self.times} $?")
        self.says(rf"did {self.times} \d+$")
        said = self.vm.out[before:]
        assert said.rstrip().endswith(" 0"), f"{command}: {said}{self.vm.log}"
        return said

    @property
    def bridge_log(self):
        return (self.log / "bridge").read_text(errors="replace")

    def ask(self, what, *options):
        return run(BARCUDA, what, "--region", self.region, *options, patience=PATIENCE)

    def pause(self):
        ran = self.ask("pause", "--within", "60s")
        assert ran.status == 0, f"{ran}\n{self.bridge_log}"

    def resume(self):
        ran = self.ask("resume")
        assert ran.status == 0, f"{ran}\n{self.bridge_log}"

    def monitor(self, *commands):
        """What QEMU's monitor is told, as libvirt tells it."""
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(PATIENCE)
            to.connect(str(self.log / "qmp"))
            lines = to.makefile("rw")
            lines.readline()  # its greeting
            for command in ("qmp_capabilities", *commands):
                lines.write(json.dumps({"execute": command}) + "\n")
                lines.flush()
                while "return" not in (answer := json.loads(lines.readline())):
                    assert "error" not in answer, answer

    def complaints(self):
        return [line for line in self.bridge_log.splitlines() if re.search(r"\b(warning|warn|error|critical)\b", line)]

    def end(self):
        self.vm.send("exit 0")
        assert self.vm.wait() == 0, f"{self.vm}\n{self.bridge_log}"


@pytest.fixture
def guest():
    need("qemu-system-x86_64")
    folder, made = Path(tempfile.mkdtemp(prefix="barcuda-test-")), []
    folder.chmod(0o711)  # for libvirt's QEMU, which is another user's

    def boot(door, *options):
        made.append(Guest(folder, door, *options))
        return made[-1].boot()
    yield boot
    for each in made:
        each.vm.kill(15)
    shutil.rmtree(folder, ignore_errors=True)


def program_is_paused(guest, number, variables=""):
    """It synchronizes all the time, asks for memory and NVML while it is paused, and has computed right."""
    guest.does(f"{variables} {PROGRAM} asks < /tmp/line 8<&- & program=$!")
    guest.says("^running", number)
    guest.pause()
    guest.does("echo >&9")
    guest.says("^answered", number)
    assert "right" not in guest.vm.out.split("running")[-1]
    said = guest.does(f"{variables} {BARCUDA} smi")
    assert "paused" in said, said
    guest.resume()
    guest.does("echo >&9; wait $program")
    guest.says("^right", number)
    guest.resume()  # of a client that runs, or of none


def models_are_paused(guest):
    """By hand: the models, again and again."""
    pauses = refusals = programs = 0
    models = "copy_model steps=300", "managed_model steps=100", "api_model steps=60"
    while PAUSES and (pauses < PAUSES or programs < len(models)):
        guest.vm.send(f"{BUILD}/e2e/{models[programs % len(models)]} threads=2 seed=$RANDOM < /dev/null > /tmp/model 2>&1; echo model {programs}: $?")
        while not re.search(rf"^model {programs}: ", guest.vm.out, re.M):
            ran = guest.ask("pause")
            assert ran.status == 0 or "did not end within" in ran.err, ran
            refusals, pauses = refusals + (ran.status != 0), pauses + (ran.status == 0 and "channel" in guest.bridge_log)
            time.sleep(0.001 * 1000 ** (pauses % 7 / 6))  # a millisecond to a second
            guest.resume()
            time.sleep(0.3)
        if f"model {programs}: 0" not in guest.vm.out:
            raise AssertionError(guest.does("cat /tmp/model") + guest.bridge_log)
        programs += 1
    print(f"{programs} programs, {pauses} pauses, {refusals} refusals", file=sys.stderr)


def is_stopped(guest, number, seconds, stop=lambda guest: guest.monitor("stop"), go_on=lambda guest: guest.monitor("cont")):
    """A guest that QEMU stops in the midst of a program: all is as if nothing had been."""
    guest.does(f"{PROGRAM} asks < /tmp/line 8<&- & program=$!")
    guest.says("^running", number)
    reclaimed = guest.bridge_log.count("reclaimed")
    stop(guest)
    time.sleep(seconds)
    assert guest.bridge_log.count("reclaimed") == reclaimed, f"a stopped guest's client was taken for dead: {guest.bridge_log}"
    go_on(guest)
    guest.does("echo >&9")
    guest.says("^answered", number)
    guest.does("echo >&9; wait $program")
    guest.says("^right", number)
    assert not guest.complaints()


# Longer than anything on the host waits for anything of a guest's: the longest is asked.h's ten seconds.
LONG = 12


def test_at_the_door_with_interrupts_and_while_the_guest_is_stopped(guest):
    guest = guest("doorbell")
    program_is_paused(guest, 1)
    is_stopped(guest, 2, STOPPED or LONG)
    models_are_paused(guest)
    guest.end()


def test_at_the_doors_without_interrupts_by_the_module_and_by_the_whole_bar(guest):
    guest = guest("plain", "--user", "0", "--module", "pages=0")
    program_is_paused(guest, 1)
    if STOPPED:
        is_stopped(guest, 2, STOPPED)
    models_are_paused(guest)
    guest.does("bar=$(ls -d /sys/bus/pci/devices/*/uio | head -n 1)/../resource2_wc; bar=$(realpath $bar); /sbin/rmmod uio_barcuda")
    program_is_paused(guest, 3 if STOPPED else 2, "BARCUDA_REGION=$bar")
    guest.end()


def test_at_the_door_of_virtio_pmem(guest):
    guest = guest("virtio-pmem")
    program_is_paused(guest, 1)
    if STOPPED:
        is_stopped(guest, 2, STOPPED)
    models_are_paused(guest)
    guest.end()


@pytest.fixture
def virsh():
    """Libvirt's own program; on a machine without systemd its daemons run while the test does."""
    need("qemu-system-x86_64", "virsh", "libvirtd", "virtlogd")
    if not IS_ROOT:
        pytest.skip("only root starts domains of qemu:///system")

    def tell(*words):
        return run("virsh", "--quiet", "--connect", "qemu:///system", *words)
    started = []
    if tell("version").status != 0:
        for daemon in ("virtlogd", "libvirtd"):
            if run("pgrep", "-x", daemon).status != 0:
                succeed(daemon, "-d")
                started.insert(0, daemon)
        until(lambda: tell("version").status == 0, "libvirt answers")
    yield lambda *words: succeed("virsh", "--quiet", "--connect", "qemu:///system", *words)
    for daemon in started:
        os.kill(int(Path(f"/run/{daemon}.pid").read_text()), 15)


def test_a_domain_of_libvirts_is_suspended_and_resumed(guest, virsh):
    guest = guest("plain", "--libvirt", "--region-size", "1G")
    name = Path(guest.region).name.removeprefix("barcuda-")
    program_is_paused(guest, 1)
    is_stopped(guest, 2, STOPPED or LONG, lambda _: virsh("suspend", name), lambda _: virsh("resume", name))
    guest.end()
