# SPDX-License-Identifier: Apache-2.0
"""VMs that `barcuda vm --name` keeps: they go on in the background, are found by their names, end when they are told to, and their disks stay.
QEMU, ssh and its tools are scripts here: QEMU says on the guest's serial port that the guest is ready. (tests/vm/debian starts real ones.)"""
import os
import signal
import subprocess
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, has_ended, run, until, written

REFUSED = 125
QEMU = r"""#!/bin/sh
# Writes to its disk, as a guest would; says "ready" on the second serial port, and goes on.
words=$*
while [ $# -gt 0 ]; do
    case $1 in
        -serial) serial=${2#file:}; shift ;;
        -blockdev) folder=${2#*dir=} folder=${folder%%/seed,*}; shift ;;
        -drive) disk=${2#*file=} how=${2#*snapshot=}; disk=${disk%%,*}; shift ;;
    esac
    shift
done
[ "$how" = off ] && echo written >> "$disk"
echo $$ > "$folder/qemu.pid"
echo "$words" > "$folder/words"
[ -e "${0%/*}/silent" ] || echo ready > "$serial"
exec sleep 600
"""
SSH = r"""#!/bin/sh
# ssh -F FILE [-t] vm [PROGRAM]: the program runs here. A guest that powers off ends QEMU.
while [ "$1" != vm ]; do
    [ "$1" != -F ] || file=$2
    shift
done
case $2 in
    *poweroff*) [ -e "${0%/*}/stays" ] || kill "$(cat "${file%/ssh}/qemu.pid")" ;;
    *) exec sh -c "$2" ;;
esac
"""
KEYGEN = "#!/bin/sh\nfor last; do :; done\necho a key > $last && echo a key > $last.pub\n"


class Kept:
    def __init__(self, scratch):
        self.data, self.tools = scratch / "data", scratch / "tools"
        self.tools.mkdir()
        for name, text in {"qemu-system-x86_64": QEMU, "ssh": SSH, "scp": "#!/bin/sh\n", "ssh-keygen": KEYGEN}.items():
            written(self.tools / name, text).chmod(0o755)
        self.packages = scratch / "packages"
        self.packages.mkdir()
        for name in "barcuda-common_1_amd64.deb", "barcuda-guest_1_all.deb":
            (self.packages / name).touch()
        self.image = scratch / "image"
        with open(self.image, "wb") as file:
            file.truncate(1 << 20)
        self.first = ["--image", self.image, "--packages", self.packages]
        self.options = ["--device", "soft", "--region-size", "256M"]
        self.environment = {"XDG_DATA_HOME": str(self.data), "PATH": f"{self.tools}:{os.environ['PATH']}"}

    def run(self, *words):
        return run(BARCUDA, "vm", *words, env=self.environment)

    def succeeds(self, *words):
        ran = self.run(*words)
        assert ran.status == 0, ran
        return ran.out

    def refused(self, why, *words):
        ran = self.run(*words)
        assert ran.status == REFUSED and why in ran.err, ran

    def start(self, name="one", *more):
        # The one that starts it has ended, and its output is closed: else run() would wait.
        first = [] if (self.data / f"barcuda/vms/{name}/disk").exists() else self.first
        return self.succeeds("--name", name, "--detach", *first, *self.options, *more)

    def start_in_front(self):
        """A start that waits for its guest."""
        return subprocess.Popen([BARCUDA, "vm", "--name", "one", *self.first, *self.options], env={**os.environ, **self.environment},
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    @property
    def disk(self):
        return self.data / "barcuda/vms/one/disk"

    def written(self):
        return self.disk.read_bytes().count(b"written\n")

    def states(self):
        lines = self.succeeds("list").splitlines()[1:]
        return {line.split()[0]: line.split()[1] for line in lines}

    def process(self):
        return int((self.disk.parent / "running").read_text().splitlines()[0])

    def run_folder(self):
        return Path((self.disk.parent / "running").read_text().splitlines()[1])


@pytest.fixture
def kept(scratch):
    one = Kept(scratch)
    yield one
    for name, state in one.states().items():
        if state == "running":
            one.run("stop", name)


def test_a_vm_with_a_name_goes_on_in_the_background_and_is_listed(kept):
    assert kept.states() == {}
    kept.start()
    kept.start("two")
    assert kept.states() == {"one": "running", "two": "running"}


def test_a_program_runs_in_it_and_its_status_is_the_programs(kept):
    kept.start()
    ran = kept.run("ssh", "one", "sh", "-c", "echo 'two words'; exit 7")
    assert (ran.out, ran.status) == ("two words\n", 7), ran


def test_while_it_runs_ssh_knows_it_by_its_name_from_a_file_that_stays_at_its_place(kept, scratch):
    """For the user's ~/.ssh/config, and programs that read it (VS Code)."""
    if not Path("/usr/bin/ssh").exists():
        pytest.skip("ssh is not installed")
    own = written(scratch / "config", f"Include {kept.data}/barcuda/vms/*/ssh\n")
    kept.start("one", "--port", "2345")
    asked = run("/usr/bin/ssh", "-G", "-F", own, "one")
    known = dict(line.split(" ", 1) for line in asked.out.splitlines())
    assert (known["hostname"], known["port"], known["user"], known["identityfile"]) == ("127.0.0.1", "2345", "cuda", f"{kept.run_folder()}/key"), asked
    kept.succeeds("stop", "one")
    assert "\nport 22\n" in run("/usr/bin/ssh", "-G", "-F", own, "one").out, "a VM that does not run is still known"


def test_stopped_nothing_runs_and_the_disk_stays_and_the_next_start_goes_on_with_it(kept):
    kept.start()
    process, folder = kept.process(), kept.run_folder()
    assert kept.written() == 1 and folder.is_dir()
    kept.succeeds("stop", "one")
    assert not folder.exists(), "something is left of the run"
    until(lambda: has_ended(process), "its process ends")
    assert kept.states() == {"one": "stopped"}
    assert kept.image.stat().st_size == 1 << 20, "the image was written to"
    kept.start()
    assert kept.written() == 2


def test_a_vm_that_runs_is_neither_suspended_nor_moved(kept, scratch):
    """Its QEMU has no monitor: the guest would stay, without a bridge."""
    kept.start()
    for words in (["suspend", "one", scratch / "set"], ["suspend", "--region", kept.run_folder() / "region", scratch / "set"],
                  ["move", "one", "ssh://host/one"]):
        ran = run(BARCUDA, *words)
        assert ran.status == 1 and "its VM is one of `barcuda vm`" in ran.err and "`barcuda vm stop`" in ran.err, ran
    assert not (scratch / "set").exists() and kept.states() == {"one": "running"}
    ran = run(BARCUDA, "suspend", "--check", "one")
    assert ran.status == 0, ran


def test_a_vm_that_runs_is_not_started_again_and_not_removed(kept):
    kept.start()
    kept.refused("one runs already: `barcuda vm ssh one`", "--name", "one", "--detach", *kept.options)
    assert "one" in [line.split()[0] for line in run(BARCUDA, "ps").out.splitlines() if line], "its bridge has another name"
    kept.refused("one runs: `barcuda vm stop one` first", "rm", "one")


def test_removed_it_is_gone(kept):
    kept.start()
    kept.succeeds("stop", "one")
    kept.succeeds("rm", "one")
    assert kept.states() == {} and not kept.disk.parent.exists()


def test_a_vm_whose_process_was_killed_does_not_run(kept):
    kept.start()
    os.kill(kept.process(), signal.SIGKILL)
    until(lambda: kept.states() == {"one": "stopped"}, "it is stopped")
    kept.refused("one does not run", "ssh", "one", "true")
    left = kept.run_folder()
    assert left.exists()
    kept.start()
    assert not left.exists(), "what the killed process left of its run is there still"


@pytest.mark.parametrize("why, words", [
    ("is no name", ["--name", "../one", "--detach"]), ("--detach needs --name", ["--detach"]),
    ("--detach runs no program", ["--name", "one", "--detach", "--", "true"]), ("there is no VM one", ["stop", "one"]),
    ("there is no VM one", ["rm", "one"]), ("there is no VM one", ["ssh", "one"])], ids=lambda words: " ".join(words) if isinstance(words, list) else "")
def test_what_cannot_be_is_refused_with_the_reason(kept, why, words):
    kept.refused(why, *words)


def test_a_name_that_is_a_path_leads_nowhere(kept, scratch):
    """Nor an empty one, which would be the folder of all VMs."""
    victim = scratch / "victim"
    victim.mkdir()
    (victim / "disk").touch()
    kept.start("disk")
    for name in str(victim), "", "..", f"../{victim.name}":
        for command in "rm", "stop", "ssh":
            ran = kept.run(command, name)
            assert ran.status == REFUSED and "name" in ran.said, ran
    assert (victim / "disk").exists() and kept.states() == {"disk": "running"}


def test_a_vm_that_is_still_starting_can_be_stopped(kept):
    written(kept.tools / "qemu-system-x86_64", "#!/bin/sh\nexec sleep 600\n").chmod(0o755)
    start = kept.start_in_front()
    until(lambda: kept.states() == {"one": "running"}, "it runs")
    assert "still starting" in kept.run("ssh", "one", "true").said
    assert kept.run("stop", "one").status == 0
    start.communicate()
    assert start.returncode != 0 and "running" not in kept.states().values()


def test_a_start_that_fails_says_why_and_keeps_nothing(kept):
    written(kept.tools / "qemu-system-x86_64", "#!/bin/sh\necho no such machine >&2\nexit 1\n")
    ran = kept.run("--name", "one", "--detach", *kept.first, *kept.options)
    assert ran.status == REFUSED and "no such machine" in ran.err, ran
    assert kept.states() == {"one": "unfinished"} and not list(kept.disk.parent.glob("disk*"))
    kept.succeeds("rm", "one")
    assert kept.states() == {}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["told to end", "killed"])
def test_a_disk_whose_first_guest_was_never_ready_is_made_anew(kept, end):
    """The guest was cut off while it installed packages."""
    silent = written(kept.tools / "silent", "")
    start = kept.start_in_front()
    until(lambda: list(kept.disk.parent.glob("disk*")) and b"written\n" in next(kept.disk.parent.glob("disk*")).read_bytes(), "the guest writes")
    start.send_signal(end)
    start.communicate()
    assert kept.states() == {"one": "unfinished"}
    silent.unlink()
    kept.start()
    assert kept.written() == 1


def test_a_stop_whose_guest_does_not_power_off_says_so_and_fails(kept):
    kept.start("one", "--timeout", "1")
    stays = written(kept.tools / "stays", "")
    ran = kept.run("stop", "one")
    assert ran.status == 1 and "one: the guest has not powered off within 1 s, and was killed" in ran.err, ran
    assert kept.states() == {"one": "stopped"}
    stays.unlink()
    kept.start()
    kept.succeeds("stop", "one")


def test_a_stop_of_a_later_start_whose_guest_is_not_ready_says_what_is_lost(kept):
    kept.start()
    kept.succeeds("stop", "one")
    written(kept.tools / "silent", "")
    kept.first = []
    start = kept.start_in_front()
    until(lambda: kept.written() == 2, "the guest writes")
    ran = kept.run("stop", "one")
    start.communicate()
    assert ran.status == 1 and "one: the guest was still starting, and was killed" in ran.err, ran


def test_later_starts_need_no_folder_of_packages(kept):
    kept.start()
    kept.succeeds("stop", "one")
    for file in kept.packages.iterdir():
        file.unlink()
    kept.start()
    assert sorted(file.name for file in (kept.run_folder() / "seed").glob("*.deb")) == ["barcuda-common_1_amd64.deb", "barcuda-guest_1_all.deb"]
    kept.succeeds("stop", "one")
    for name in "barcuda-common_2_amd64.deb", "barcuda-guest_2_all.deb":
        (kept.packages / name).touch()
    kept.start("one", "--packages", kept.packages)
    assert sorted(file.name for file in (kept.disk.parent / "packages").iterdir()) == ["barcuda-common_2_amd64.deb", "barcuda-guest_2_all.deb"]


@pytest.mark.parametrize("words", [["--image", "IMAGE"], ["--debian", "trixie"]], ids=["image", "debian"])
def test_a_vm_that_has_a_disk_refuses_another(kept, words):
    kept.start()
    kept.succeeds("stop", "one")
    kept.refused("one has a disk already", "--name", "one", "--detach", *[kept.image if word == "IMAGE" else word for word in words], *kept.options)


def test_an_image_boots_by_itself_whatever_kernel_an_earlier_start_has_left(kept):
    kept.disk.parent.mkdir(parents=True)
    for name in "vmlinuz", "initrd":
        (kept.disk.parent / name).touch()
    kept.start()
    assert "-kernel" not in (kept.run_folder() / "words").read_text()
