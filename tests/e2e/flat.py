# SPDX-License-Identifier: Apache-2.0
"""flat.py: what the flat tests share: programs, bridges and regions that end with the test that started them. conftest.py hands them out.

Each wait ends with the event that it waits for; PATIENCE seconds without it mean a hang, and are a failure.
"""
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build")
DEVICE = os.environ.get("DEVICE", "soft")
BARCUDA, BRIDGE, LIBRARIES = BUILD / "bin/barcuda", BUILD / "bin/barcuda-bridge", BUILD / "lib"
RUN = [BARCUDA, "run", "--host-libraries", "--device", DEVICE, "--"]
IS_ROOT = os.geteuid() == 0
PATIENCE = 120


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def needs_soft(why):
    """For tests, and as `pytestmark` for a file, that only the software GPU can run."""
    return pytest.mark.skipif(DEVICE != "soft", reason=why)


def until(condition, what, patience=PATIENCE):
    """Waits until the condition is true, which another process will see to, and returns its value. `what`: a text, or a function that has it."""
    end = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < end, f"never so: {what() if callable(what) else what}"
        time.sleep(0.02)
    return value


@dataclass
class Ran:
    """A program that has ended."""
    command: str
    status: int
    out: str
    err: str

    @property
    def said(self):
        return self.out + self.err

    def __str__(self):
        return f"{self.command}: status {self.status}: {self.said}"


def text_of(file):
    try:
        return Path(file).read_bytes().decode(errors="backslashreplace")
    except FileNotFoundError:
        return ""


def words(command):
    return [word if isinstance(word, bytes) else str(word) for word in command]


def run(*command, env=None, patience=PATIENCE, **how):
    """Runs a program to its end. `env`: variables beside those of this process; None as a value takes one away."""
    how.setdefault("stdin", subprocess.DEVNULL)
    if "input" in how:
        del how["stdin"]
    done = subprocess.run(words(command), env=environment(env), timeout=patience, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="backslashreplace", check=False, **how)
    return Ran(" ".join(map(str, command)), done.returncode, done.stdout, done.stderr)


def succeed(*command, **how):
    """The same; the program must end with 0. Its standard output."""
    ran = run(*command, **how)
    assert ran.status == 0, ran
    return ran.out


def environment(variables=None):
    merged = {**os.environ, **{name: str(value) if value is not None else None for name, value in (variables or {}).items()}}
    return {name: value for name, value in merged.items() if value is not None}


def other_user(*command):
    """The command as a user without rights."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def may_be_other_user():
    return IS_ROOT and shutil.which("setpriv")


def children(pid, pattern=""):
    """The processes that this one has started and whose command line holds the pattern."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid and \
                    re.search(pattern, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return sorted(found)


class Program:
    """A program in the background. `log` holds what it says on standard error, `out_file` what it says on standard output."""

    def __init__(self, folder, name, command, env=None, **how):
        self.command, self.name = words(command), name
        self.out_file, self.log_file = Path(folder) / f"{name}.out", Path(folder) / f"{name}.err"
        with open(self.out_file, "wb") as out, open(self.log_file, "wb") as err:
            how.setdefault("stdin", subprocess.DEVNULL)
            self.process = subprocess.Popen(self.command, env=environment(env), stdout=out, stderr=err, **how)
        self.pid = self.process.pid

    @property
    def out(self):
        return text_of(self.out_file)

    @property
    def log(self):
        return text_of(self.log_file)

    def __str__(self):
        return f"{self.command} (status {self.process.poll()}): {self.out}{self.log}"

    def runs(self):
        return self.process.poll() is None

    def wait_for(self, pattern, count=1):
        """Waits until it has said the line, so many times, on either output; fails if it ends without that. The first match."""
        def found():
            ended = not self.runs()
            matches = list(re.finditer(pattern, self.out + "\n" + self.log, re.M))
            if len(matches) >= count:
                return matches[0]
            assert not ended, f"{pattern!r} was not said by {self}"
            return None
        return until(found, lambda: f"{pattern!r} is said by {self}")

    def send(self, line=""):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end_input(self):
        self.process.stdin.close()

    def send_signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Until it ends: its status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end: {self}") from None

    def kill(self, number=signal.SIGKILL):
        """Ends it by a signal, if it still runs: its status."""
        if self.runs():
            if number != signal.SIGKILL:  # which a stopped process does not survive, and goes no further
                self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        status = self.wait()
        if self.process.stdin:
            self.process.stdin = None
        return status


class Bridge(Program):
    """A bridge that serves a region. Its log is on standard error. `under`: the words in front of its command, as other_user() has them."""

    def __init__(self, region, options, name, size="1G", level="info", program=BRIDGE, device=DEVICE, under=(), **how):
        ready, sends = os.pipe()
        try:
            super().__init__(region.folder, name, [*under, program, "--region", region.path, "--size", size, "--device", device, "--log-level", level,
                                                   "--ready-fd", sends, *options], pass_fds=[sends], **how)
            os.close(sends)
            sends = -1
            came_up = os.read(ready, 1)
        finally:
            os.close(ready)
            if sends >= 0:
                os.close(sends)
        if not came_up:
            self.kill()
            raise AssertionError(f"the bridge did not come up: {self}")

    def stop(self):
        """As an operator stops it. It ends with 0."""
        self.send_signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, f"the bridge ended with {status}: {self.log}"

    @property
    def proper(self):
        """The pid of the process that serves; `pid` is its keeper's. None where none serves at this moment."""
        return next(iter(children(self.pid, r"^\S+ --region ")), None)

    def kill(self, number=signal.SIGKILL):
        """As for any program; the process that serves ends with its keeper."""
        proper = self.proper
        status = super().kill(number)
        until(lambda: proper is None or has_ended(proper), "the serving process has ended")
        return status

    def stand_still(self):
        """Keeper and bridge stop. A keeper that runs would replace a bridge that is stopped."""
        proper = self.proper
        for pid in self.pid, proper:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self):
        for pid in self.proper, self.pid:
            os.kill(pid, signal.SIGCONT)

    def monitors(self):
        return children(self.proper, "--monitor")

    def workers(self):
        """Those that have a client, as the log names them, in order."""
        return [int(pid) for pid in re.findall(r"client admitted, worker (\d+)", self.log)]


class Region:
    """A region in a folder of its own, its bridge and its clients. All of them end with the region."""
    open_ones = []

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="barcuda-test-", dir="/dev/shm"))
        self.path = self.folder / "region"
        self.bridge, self.programs = None, []
        self.library = LIBRARIES
        Region.open_ones.append(self)

    def close(self):
        for program in reversed(self.programs):
            program.kill()
        if self.bridge:
            self.bridge.kill(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)
        Region.open_ones.remove(self)

    def serve(self, *options, **how):
        """A bridge on this region. An earlier one stops first."""
        if self.bridge and self.bridge.runs():
            self.bridge.stop()
        self.bridge = Bridge(self, options, "bridge", **how)
        return self.bridge

    def stop(self):
        self.bridge.stop()

    @property
    def log(self):
        return self.bridge.log

    def wait_for_log(self, pattern, count=1):
        return self.bridge.wait_for(pattern, count)

    def change_library(self, *change):
        """Its clients run under a copy of the library, of which build/e2e/rows makes one of another day's build."""
        self.library = self.folder / "lib"
        shutil.rmtree(self.library, ignore_errors=True)
        self.library.mkdir()
        shutil.copy(LIBRARIES / "libbarcuda.so", self.library)
        shutil.copytree(LIBRARIES / "barcuda", self.library / "barcuda", symlinks=True)
        succeed(BUILD / "e2e/rows", self.library / "libbarcuda.so", *change)

    @property
    def named(self):
        """The variable that names this region, for commands."""
        return {"BARCUDA_REGION": str(self.path)}

    @property
    def guest(self):
        """The variables of a client of this region."""
        return {**self.named, "LD_PRELOAD": str(self.library / "libbarcuda.so"),
                "LD_LIBRARY_PATH": f"{self.library}/barcuda:{self.library}/barcuda-libraries"}

    def client(self, *command, env=None, **how):
        """Runs a program as a client, to its end."""
        return run(*command, env={**self.guest, **(env or {})}, **how)

    def background(self, name, *command, env=None, **how):
        """The same in the background."""
        program = Program(self.folder, name, command, env={**self.guest, **(env or {})}, **how)
        self.programs.append(program)
        return program

    def start(self, name, *command, **how):
        """The same, and it runs: it has said so."""
        program = self.background(name, *command, **how)
        program.wait_for("running")
        return program


def nvcc(output, *words):
    """Compiles a program, as users do."""
    compiler = shutil.which("nvcc") or f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin/nvcc"
    if not os.access(compiler, os.X_OK):
        pytest.skip("nvcc is not installed")
    succeed(compiler, "-Wno-deprecated-gpu-targets", "-o", output, *words, patience=600)
    return output


def gxx(output, *words, **how):
    need("g++")
    succeed("g++", "-o", output, *words, patience=600, **how)
    return output


def written(file, text):
    file.write_text(text)
    return file


def has_ended(pid):
    """Whether the process has ended, collected or not: all its threads, of which the first one may be a zombie before the others."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended = bool(select.select([process], [], [], 0)[0])
    os.close(process)
    return ended


def not_sanitized(why):
    """`pytestmark` for a file whose tests make no sense of a build under a sanitizer."""
    return pytest.mark.skipif(bool(re.search("address|thread", BUILD.name)), reason=why)


def lacks(programs):
    """Which packages are to be installed, of {program: package}."""
    return sorted({package for program, package in programs.items() if not shutil.which(program)})
