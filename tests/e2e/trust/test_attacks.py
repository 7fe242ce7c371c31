# SPDX-License-Identifier: Apache-2.0
"""An attacker in a worker that was taken over (attacks.cc, from inside NVIDIA's cage) reaches nothing that is not its client's: no other VM's
region, no socket, file or process of another program, no bridge and no part of the kernel. The driver behind it is the software GPU, or, with
DEVICE=cuda, the real one: DEVICE=cuda python3 -m pytest tests/e2e/trust/test_attacks.py.

ATTACKS names a folder that keeps the two programs, for a machine without a compiler: they are built where they are not there yet.
"""
import os
import pwd
import re
import shutil
import stat
from pathlib import Path

import pytest

from e2e.flat import BUILD, DEVICE, IS_ROOT, LIBRARIES, may_be_other_user, need, other_user, succeed

SOURCE = "tests/e2e/trust/attacks.cc"
PRELOADED = {"LD_PRELOAD": LIBRARIES / "libbarcuda.so", "LD_LIBRARY_PATH": LIBRARIES / "barcuda"}
NEEDED = "syscalls", "privileges", "capabilities"
OF_ROOTS_BRIDGE = "is_bridges_user"  # of a plain user's bridge its workers are
WITHOUT_THE_LIST = """
    other_region other_doorbell own_doorbell other_limits look_into_shared read_accounts read_secrets read_victim change_victim chmod_victim
    chmodat_victim chown_victim setuid_victim xattr_victim times_victim link_victim symlink_there rename_victim remove_victim make_folder make_node
    truncate_victim change_descriptors write_usr write_root stream_socket datagram_socket datagram_by_pair abstract_socket system_bus raw packet
    limit_bridge read_bridges_limits signal_bridge signal_thread queue_signal idle_bridge affinity_of_bridge nice_bridge io_of_bridge
    attributes_of_bridge move_pages_of_bridge memory_of_bridge files_of_bridge environment_of_bridge root_of_bridge root_of_first trace_bridge
    read_process write_process become_bridge become_group gain_capabilities is_bridges_user has_groups leave_mounts leave_network join_first
    change_root pivot mount_there unmount open_tree_there new_file_system program_in_kernel count_events faults ring key keys kernel_log
    core_pattern system_request leave_group protected_from_oom disks kernel_memory virtual_machines""".split()


def real_driver():
    """The libcuda.so.1 that the attacked one passes calls on to."""
    if DEVICE == "soft":
        return LIBRARIES / "barcuda-soft/libcuda.so.1"
    listed = re.search(r"libcuda\.so\.1 .*x86-64.* => (\S+)", succeed("ldconfig", "-p"))
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu"]
    found = [listed[1]] if listed else [Path(folder, "libcuda.so.1") for folder in folders if folder and Path(folder, "libcuda.so.1").exists()]
    return found[0] if found else pytest.skip("no libcuda.so.1 here")


def build(folder):
    """A driver with the attacker inside, called libcuda.so.1, and the client that asks for the attempts."""
    need("g++")
    empty = folder / "libreal.so"
    inside = ["-std=c++20", "-O1", "-I.", "-D_GNU_SOURCE", "-static-libstdc++", "-static-libgcc", SOURCE]
    succeed("g++", "-shared", "-Wl,-soname,libreal.so", "-o", empty, "-x", "c", "/dev/null")
    succeed("g++", "-fPIC", "-shared", *inside, "-o", folder / "libcuda.so.1", "-Wl,--no-as-needed", empty)
    empty.unlink()
    succeed("g++", "-DCLIENT", *inside, "-o", folder / "attack", LIBRARIES / "libbarcuda.so")


class Attacker:
    """The installation: a driver that an attacker has taken over, over the real one."""

    def __init__(self, folder):
        folder.chmod(0o711)
        kept = Path(os.environ.get("ATTACKS", folder / "built"))
        kept.mkdir(exist_ok=True)
        if not (kept / "attack").exists():
            build(kept)
        nvidia, real = folder / "nvidia", folder / "real"
        nvidia.mkdir(), real.mkdir()
        shutil.copy(kept / "libcuda.so.1", nvidia)
        self.program = shutil.copy(kept / "attack", folder)
        (shutil.copy if DEVICE == "soft" else os.symlink)(real_driver(), real / "libreal.so")
        self.libraries = ":".join(map(str, [nvidia, real, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]))
        attempts = [line.split() for line in succeed(self.program, env=PRELOADED).splitlines()]
        self.attempts = [name for name, _ in attempts]
        self.succeed_without_a_cage = [name for name, done in attempts if done == "done"]
        assert len(self.attempts) == 126, attempts
        assert set(WITHOUT_THE_LIST) < set(self.attempts), "an attempt that there is not"


@pytest.fixture(scope="module")
def attacker(shared):
    return Attacker(shared)


class Attacked:
    """Another VM's bridge, of the same user, and what else this user has; and a bridge whose workers are the attacker's."""

    def __init__(self, regions, attacker, user, unit=False):
        self.attacker, self.region, self.other = attacker, regions(), regions()
        self.things = self.region.folder
        self.victim, self.program = self.things / "victim", self.things / "program"
        for file in self.victim, self.things / "movable", self.things / "removable":
            file.write_text("x\n")
            file.chmod(0o600)
        shutil.copy(shutil.which("true"), self.program)
        self.program.chmod(0o700)
        self.as_user = other_user() if user.pw_uid != os.geteuid() else []
        if self.as_user:
            for file in self.things, *self.things.iterdir():
                os.chown(file, user.pw_uid, user.pw_gid)
        self.things.chmod(0o755)
        self.becomes = ["--user", user.pw_name] if unit else []
        self.under = ["setpriv", "--bounding-set=-all,+setuid,+setgid"] if unit else self.as_user
        abstract = f"barcuda-attack-{self.things.name}"
        self.env = {"BARCUDA_TEST_OTHERS": self.things, "BARCUDA_TEST_ABSTRACT": abstract, "BARCUDA_TEST_USER": user.pw_uid, "BARCUDA_TEST_HARMLESS": "yes"}
        self.region.background("sockets", *self.as_user, attacker.program, "serve", self.things, abstract, env=PRELOADED).wait_for("ready")
        self.region.path, self.other.path = self.things / "own", self.things / "region"
        self.serve_as_user(self.other, "--doorbell", self.things / "bell", device="soft", level="warn")

    def serve_as_user(self, region, *options, **how):
        return region.serve(*options, *self.becomes, size="256M", under=self.under, env={**self.env, "LD_LIBRARY_PATH": self.attacker.libraries}, **how)

    def serve(self, *options):
        """The attacked bridge."""
        if self.region.bridge:
            self.region.stop()
            self.region.path.unlink(missing_ok=True)
        self.serve_as_user(self.region, "--no-vm", "--doorbell", self.things / "own-bell", *options, device="cuda")
        if not options and any(map(self.lacks, NEEDED)):
            pytest.skip("this kernel, or this build, lacks a part of the cage")

    def lacks(self, measure):
        return bool(re.search(f"cage lacks ('[a-z]+', )*'{measure}'", self.region.log))

    def attempts(self):
        return [name for name in self.attacker.attempts if name != OF_ROOTS_BRIDGE or not self.lacks("user")]

    def client(self, *command):
        return self.region.client(*self.as_user, *command)

    def answer(self, attempt):
        return self.client(self.attacker.program, attempt).out.strip()

    def refuses(self, attempts):
        """None of them is done, and everything is as it was."""
        answers = {name: self.answer(name) for name in attempts}
        assert all(re.match("done$|ended$|refused: ", answer) for answer in answers.values()), answers
        assert self.region.bridge.runs(), "the bridge has ended"
        assert self.other.bridge.runs(), "another VM's bridge has ended"
        assert not (done := [name for name, answer in answers.items() if answer == "done"]), f"done: {done}"
        assert self.victim.read_text() == "x\n" and [stat.S_IMODE(f.stat().st_mode) for f in (self.victim, self.program)] == [0o600, 0o700]


@pytest.fixture
def attacked(regions, attacker):
    """The bridges run as this user; the cage has all its measures."""
    attacked = Attacked(regions, attacker, pwd.getpwuid(os.geteuid()))
    attacked.serve()
    return attacked


def a_plain_user():
    if not may_be_other_user():
        pytest.skip("needs root and setpriv, to run bridges as another user")
    try:
        return pwd.getpwuid(65534)
    except KeyError:
        return pytest.skip("there is no user 65534")


def test_with_all_measures_no_attempt_is_done_and_an_honest_client_is_served(attacked):
    attacked.refuses(attacked.attempts())
    ran = attacked.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, ran


def test_without_the_list_of_system_calls_a_worker_has_no_name_for_anything_and_no_right(attacked):
    attacked.serve("--no-cage=syscalls")
    for measure in "user", "mounts":
        if attacked.lacks(measure):
            pytest.skip(f"the cage lacks '{measure}', which is what stops a worker then")
    attacked.refuses(WITHOUT_THE_LIST)


def test_without_a_cage_the_attempts_are_done_so_that_their_refusals_mean_something(attacked):
    if not IS_ROOT:
        pytest.skip("needs root: a plain user may do less")
    attacked.serve("--no-cage=all")
    answers = {name: attacked.answer(name) for name in attacked.attacker.succeed_without_a_cage}
    assert set(answers.values()) == {"done"}, {name: answer for name, answer in answers.items() if answer != "done"}


def test_a_bridge_that_begins_as_root_and_goes_on_as_a_plain_user_has_another_user_for_its_workers(regions, attacker):
    attacked = Attacked(regions, attacker, a_plain_user(), unit=True)
    attacked.serve()
    if attacked.lacks("user"):
        pytest.skip("the cage lacks 'user'")
    attacked.refuses(attacked.attempts())


def test_workers_of_a_plain_users_bridge_are_this_user_and_no_attempt_is_done(regions, attacker):
    attacked = Attacked(regions, attacker, a_plain_user())
    attacked.serve()
    assert attacked.lacks("user"), "a plain user's workers are another user"
    attacked.refuses(attacked.attempts())
