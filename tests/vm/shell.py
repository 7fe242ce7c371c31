# SPDX-License-Identifier: Apache-2.0
"""shell.py: a guest whose shell takes lines while its bridge, on this machine, is told what to do. (Guests that run one program: guest.py.)"""
import copy
import json
import os
import re
import socket
import subprocess

from e2e.flat import BARCUDA, BUILD, DEVICE, TOP, Program, run, text_of, until

PATIENCE = 300  # an emulated guest boots for a minute where others build


class Shell:
    """A guest whose shell takes lines, in the background; its bridge is on this machine."""

    # Takes the module away, and names the whole BAR, for root's programs: BARCUDA_REGION=$bar.
    TO_THE_BAR = "bar=$(ls -d /sys/bus/pci/devices/*/uio | head -n 1)/../resource2_wc; bar=$(realpath $bar); /sbin/rmmod uio_barcuda"

    def __init__(self, folder, door, *options):
        self.folder, self.door, self.options, self.times, self.logs = folder, door, options, 0, []
        self.start("vm", *options, "--", "bash", "-c", "mkfifo /tmp/line; exec 8<&0 9<> /tmp/line; echo booted; "
                   'while read -r command <&8; do eval "$command"; done')

    def start(self, name, *options):
        self.vm = Program(self.folder, name, [TOP / "tests/vm/run", "--keep-log", "--transport", self.door, "--device", DEVICE, "--timeout", 1500,
                                              *options], env={"TMPDIR": self.folder, "BARCUDA_BUILD": str(BUILD), "BARCUDA_LOG": "info"},
                          stdin=subprocess.PIPE)

    def find_log(self):
        [self.log] = set(self.folder.glob("barcuda-vm.*")) - set(self.logs)
        self.logs.append(self.log)

    def boot(self):
        self.says("booted")
        self.find_log()
        self.region = re.search(r"region (\S+) of \d+ MiB", self.bridge_log)[1]
        return self

    def go_on(self, *options):
        """Another QEMU, which waits for this guest."""
        self.start(f"after{len(self.logs)}", *self.options, "--after", self.log, *options)
        until(lambda: len(list(self.folder.glob("barcuda-vm.*"))) > len(self.logs) or not self.vm.runs(), "it starts")
        self.find_log()

    def fork(self, folder, name):
        """Another guest goes on from the point at which this one was suspended, with a region of its own."""
        other = copy.copy(self)
        other.region = f"{self.region}.{name}"
        other.options = [other.region if word == self.region else word for word in map(str, self.options)]
        other.wake(folder, "--as", name)
        return other

    def wake(self, folder, *options):
        """The guest goes on, in another QEMU under another bridge, with what `barcuda suspend` has written to the folder."""
        self.go_on("--wake", folder, *options)

        def goes_on():
            assert self.vm.runs(), f"it did not wake: {self.vm}\n{self.bridge_log}"
            return "the guest goes on" in self.bridge_log
        until(goes_on, lambda: f"it goes on: {self.vm}\n{self.bridge_log}", PATIENCE)

    def hand_over(self):
        """The guest goes on in another QEMU under the same bridge: what the command says."""
        qemu, first = self.log / "qmp", self.vm
        self.go_on()
        until(lambda: (self.log / "qmp").exists() or not self.vm.runs(), lambda: f"QEMU waits: {self.vm}")
        ran = self.ask("hand-over", "--qmp", qemu, "--to", self.log / "qmp")
        assert ran.status == 0, f"{ran}\n{self.vm}\n{self.bridge_log}"
        first.wait()
        return ran.out

    def receive(self, folder, name):
        """Another QEMU and another region, for this guest: the command that receives it there. `moved`: then this is the guest."""
        other, moved = f"{self.region}.{name}", copy.copy(self)
        with open(other, "wb") as file:
            file.truncate(os.path.getsize(self.region))
        moved.go_on("--region", other, "--served", folder / "moved" / name / "log")
        moved.region = other
        until(lambda: (moved.log / "qmp").exists() or not moved.vm.runs(), lambda: f"QEMU waits: {moved.vm}")
        words = [BARCUDA, "receive", "--folder", folder / "moved", "--region", other, "--qmp", moved.log / "qmp", name, "--device", DEVICE]
        return words, moved

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
        return text_of(self.log / "bridge")

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
