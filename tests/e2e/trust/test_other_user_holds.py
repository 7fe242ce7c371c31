# SPDX-License-Identifier: Apache-2.0
"""What another user of the machine tries against a bridge that runs and against the programs of its user: to read, cut, take or hold up what
is theirs. Against root's, and against a plain user's."""
import fcntl
import os
import re
import stat
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, Program, need, other_user, run, succeed

OWN_MOUNTS = "a /dev/shm", "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
pytestmark = pytest.mark.usefixtures("own_mounts")
PYTHON = "/usr/bin/python3"  # one that every user may run
ANOTHER, A_PLAIN_USER, A_THIRD = 65534, 65533, 65532
VECTOR_ADD = BUILD / "programs/vector_add"


def as_user(uid, *command):
    return list(command) if uid == 0 else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]


def doors_of(uid):
    """The sockets in /dev/shm at which `barcuda limit` finds a bridge of that user."""
    return [path for path in Path("/dev/shm").glob("barcuda-limits-*") if path.stat().st_uid == uid]


class Victim:
    """The user whose bridge and programs another user tries to harm; all users may enter its folder. `everybodys`: where all may write."""

    def __init__(self, uid, region):
        need("setpriv", "flock", PYTHON)
        self.uid, self.region, self.folder = uid, region, region.folder
        os.chown(self.folder, uid, uid)
        self.folder.chmod(0o755)
        self.everybodys = self.folder / "everybodys"
        self.everybodys.mkdir()
        self.everybodys.chmod(0o1777)
        self.precious = self.owned("precious", "precious\n")
        self.strangers = []

    def owned(self, name, text=""):
        file = self.folder / name
        file.write_text(text)
        os.chown(file, self.uid, self.uid)
        file.chmod(0o600)
        return file

    def run(self, *command, **how):
        return run(*as_user(self.uid, *command), **how)

    def client(self, *command, env=None):
        ran = self.run("env", *(f"{name}={value}" for name, value in {**self.region.guest, **(env or {})}.items()), *command)
        assert ran.status == 0, ran
        return ran

    def serve(self, *options):
        # The program is setpriv, which hands descriptors on; so the bridge has its own user from the beginning.
        program = self.folder / "bridge-of-its-user"
        program.write_text(f"#!/bin/sh\nexec {' '.join(as_user(self.uid, str(BRIDGE)))} \"$@\"\n")
        program.chmod(0o755)
        return self.region.serve(*options, program=program, size="256M")

    def limit(self, *words, uid=None):
        return run(*as_user(self.uid if uid is None else uid, BARCUDA, "limit", "--region", self.region.path, *words))

    def unharmed(self, what):
        assert self.precious.read_text() == "precious\n", f"{what} was followed"

    def refused(self, text, *options):
        """The bridge says this, and ends."""
        ran = self.run(BRIDGE, "--size", "256M", "--device", DEVICE, "--warm", "0", *options, env={"BARCUDA_REGION": self.folder / "none"})
        assert ran.status == 1 and re.search(text, ran.err), ran
        (self.folder / "none").unlink(missing_ok=True)

    def stranger(self, code, *words):
        """Python of another user, in the background, when it says so."""
        code = f"import os, socket, sys, time\n{code}\nprint('running', flush=True)\ntime.sleep(600)"
        program = Program(self.folder, f"stranger{len(self.region.programs)}", other_user(PYTHON, "-c", code, *words))
        self.region.programs.append(program)
        program.wait_for("running")
        return program


def denied(*command):
    """The other user may not."""
    ran = run(*other_user(*command))
    assert ran.status != 0 and re.search("Permission denied|Operation not permitted", ran.said), f"another user may: {ran}"


def anothers(*command):
    """Done by the other user."""
    succeed(*other_user(*command))


@pytest.fixture(params=[0, A_PLAIN_USER], ids=["root", "plain user"])
def victim(own_mounts, request, region):
    return Victim(request.param, region)


# ---- names that are free: taken before the bridge comes ---------------------------------------------------------------------------------
@pytest.fixture(params=["region", "turns"])
def option(request, victim):
    """An option that names a file, and the name."""
    there = victim.everybodys / "there"
    return [*(["--weight", "1"] if request.param == "turns" else []), f"--{request.param}", there], there


def test_anothers_file_is_not_taken(victim, option):
    options, there = option
    anothers("sh", "-c", f"umask 0; echo mine > {there}")
    victim.refused(f"belongs to user {ANOTHER}", *options)
    assert there.read_text() == "mine\n"


def test_anothers_link_is_not_followed(victim, option):
    options, there = option
    anothers("ln", "-s", victim.precious, there)
    victim.refused("symbolic link", *options)
    victim.unharmed(f"a link at {options}")


@pytest.mark.parametrize("make", [["mkfifo", "-m", "666"], ["mkdir", "-m", "777"]], ids=["pipe", "folder"])
def test_anothers_pipe_or_folder_is_not_taken(victim, option, make):
    options, there = option
    anothers(*make, there)
    victim.refused(str(there), *options)


def test_a_file_with_a_second_name_is_not_taken(victim, option):
    options, there = option
    empty = victim.owned("empty")
    if run(*other_user("ln", empty, there)).status:
        os.link(empty, there)  # if the other user may not, another one was so careless
    victim.refused("second name|2 names", *options)
    assert empty.stat().st_size == 0, "a file of another name was filled"


@pytest.mark.parametrize("what", ["socket", "link"])
def test_anothers_socket_or_link_is_no_doorbell(victim, what):
    there = victim.everybodys / "there"
    if what == "socket":
        if victim.uid == 0:
            pytest.skip("root may remove it, and does, as a socket that a bridge has left")
        anothers(PYTHON, "-c", "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])", there)
    else:
        anothers("ln", "-s", victim.precious, there)
    victim.refused("cannot listen", "--doorbell", there)
    victim.unharmed("a link at --doorbell")


def test_a_bridge_does_not_wait_for_ever_for_one_that_holds_the_lock_of_the_file_of_turns(own_mounts, region):
    one = Victim(0, region)
    with open(one.owned("turns"), encoding="utf-8") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)  # any process that may open the file can
        one.refused("another process holds its lock", "--weight", "1", "--turns", one.folder / "turns")


# ---- a bridge that runs -------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def running(victim):
    """Its bridge runs, with a client; another user has taken the names where `barcuda limit` could look for the bridge."""
    succeed(*as_user(victim.uid, "touch", victim.region.path))
    succeed(*as_user(victim.uid, "chmod", "660", victim.region.path))
    victim.stranger(r"""
s = os.stat(sys.argv[1])
kept = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for i in range(8)]
os.umask(0)
for i, door in enumerate(kept):
    door.bind(f"/dev/shm/barcuda-limits-{s.st_dev}-{s.st_ino}-{i}" if i else f"\0barcuda-limits/{s.st_dev}/{s.st_ino}")
    door.listen(0)""", victim.region.path)
    victim.serve("--doorbell", victim.folder / "doorbell", "--weight", "1", "--turns", victim.folder / "turns")
    return victim


@pytest.fixture
def client(running):
    command = as_user(running.uid, "env", *(f"{name}={value}" for name, value in running.region.guest.items()), BUILD / "e2e/endless")
    program = Program(running.folder, "endless", command)
    running.region.programs.append(program)
    program.wait_for("running")
    return program


@pytest.mark.parametrize("how", [["cat"], ["truncate", "-s", "0"], ["flock", "-n"]], ids=["read", "cut", "lock"])
def test_files_of_a_bridge_and_of_its_user_are_not_read_cut_or_locked(running, how):
    for file in "region", "turns", "precious":
        denied(*how, running.folder / file, *(["true"] if how[0] == "flock" else []))


def test_another_user_does_not_ring_at_the_doorbell(running):
    denied(PYTHON, "-c", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", running.folder / "doorbell")


def test_the_memory_and_the_descriptors_of_bridge_worker_and_client_are_not_read(running, client):
    for process in running.region.bridge.pid, running.region.bridge.workers()[-1], client.pid:
        for file in "environ", "maps", "mem":
            denied("cat", f"/proc/{process}/{file}")
        denied("ls", f"/proc/{process}/fd/")


def test_another_users_program_is_no_client(running):
    ran = run(*other_user("env", *(f"{name}={value}" for name, value in running.region.guest.items()), VECTOR_ADD))
    assert ran.status != 0 and re.search("permission denied|belongs to user", ran.said, re.I), ran


def test_limits_are_changed_by_the_bridges_user_alone_even_with_its_names_taken(running):
    ran = running.limit("guest-channels=7")
    assert ran.status == 0, ran
    assert '"limit": 7' in running.limit("--json").out
    ran = running.limit("guest-channels=8", uid=A_THIRD)
    assert ran.status != 0 and "only that user and root" in ran.said, ran
    door, = doors_of(running.uid)
    denied(PYTHON, "-c", "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])", door)


def test_a_bridge_that_is_killed_leaves_its_socket_and_the_next_one_of_that_user_removes_it(victim):
    victim.serve().kill()
    victim.serve()
    assert len(doors_of(victim.uid)) == 1
    victim.region.stop()
    sockets = [path for path in Path("/dev/shm").iterdir() if path.stat().st_uid == victim.uid and stat.S_ISSOCK(path.stat().st_mode)]
    assert not sockets


# ---- files that a user names ------------------------------------------------------------------------------------------------------------
@pytest.fixture(params=["BARCUDA_TRACE", "BARCUDA_STATS"])
def output(request, victim):
    """A variable that names a file that programs write, and the name."""
    victim.serve()
    return request.param, victim.everybodys / "out"


def test_what_programs_write_goes_through_no_link(victim, output):
    variable, out = output
    anothers("ln", "-s", victim.precious, out)
    victim.client(VECTOR_ADD, env={variable: out})
    victim.unharmed(f"a link at {variable}")


@pytest.mark.parametrize("make", ["touch", "mkfifo -m 666"], ids=["file", "pipe"])
def test_what_programs_write_goes_into_no_others_file(victim, output, make):
    variable, out = output
    anothers("sh", "-c", f"umask 0; {make} {out}")
    victim.client(VECTOR_ADD, env={variable: out})
    assert out.stat().st_size == 0 and out.stat().st_uid == ANOTHER


def test_what_programs_write_is_their_users_alone(victim, output):
    variable, out = output
    victim.client(VECTOR_ADD, env={variable: out})
    status = out.stat()
    assert status.st_size > 0 and status.st_uid == victim.uid and stat.S_IMODE(status.st_mode) == 0o600
    denied("cat", out)


def test_a_process_with_nonsense_where_the_software_gpus_books_are_harms_nobody(victim):
    victim.serve()
    victim.stranger('os.dup2(os.memfd_create("barcuda-ledger"), 700)\n'
                    'os.write(700, (1).to_bytes(8, "little") + os.getpid().to_bytes(8, "little") + b"\\xff" * 4096)')
    ran = victim.run(BARCUDA, "smi", "--device", "soft")
    assert ran.status == 0, ran
    assert "PASSED" in victim.client(VECTOR_ADD).out
