# SPDX-License-Identifier: Apache-2.0
"""`barcuda suspend` and `barcuda wake`: programs go on in other workers, under another bridge, after everything of the first one was
killed, and compute what they always do; what cannot be carried is named, and changes nothing; what was damaged is refused, and stays.

The programs here have no VM: they are stopped while their bridge is away, as QEMU stops a guest, or wait in the call that they are in.
"""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, Program, may_be_other_user, other_user, run, succeed, until, written

# `barcuda ps` ends with 1 where a bridge of another test hangs.
pytestmark = pytest.mark.usefixtures("own_shm")
SEED = 26112
GRANULE = 32 << 20
# It numbers its commands differently: there is one more inside its table (more_rows.cc).
MORE_ROWS = BUILD / "e2e/bridge-more-rows"


class Suspended:
    """A bridge, and the folder to which it is suspended."""

    def __init__(self, region, folder):
        self.region, self.folder, self.build = region, folder, BRIDGE
        self.serve()

    def serve(self, *options):
        return self.region.serve("--no-vm", "--device-memory", "blocks", *options, program=self.build)

    def begin(self, name, *arguments, **how):
        return self.region.start(name, BUILD / "e2e/pauses", *arguments, stdin=subprocess.PIPE, **how)

    def ask(self, *words):
        return run(BARCUDA, "suspend", "--region", self.region.path, *words)

    def suspend(self):
        """Everything of the bridge's ends."""
        ran = self.ask(self.folder)
        assert ran.status == 0 and "suspended to" in ran.out, f"{ran}\n{self.region.log}"
        assert self.region.bridge.wait() == 0, self.region.log
        return ran

    def wake(self, *options):
        bridge = self.serve("--wake", self.folder, *options)
        bridge.wait_for("awake, with")
        return bridge

    def is_refused(self, why, *options):
        """A bridge that does not wake it says why, and changes nothing on the disk."""
        before = self.contents()
        with pytest.raises(AssertionError, match=why):
            self.wake(*options)
        assert self.contents() == before

    def contents(self):
        return {path.relative_to(self.folder): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(self.folder.rglob("*")) if path.is_file()}

    def ends_well(self, *programs):
        for program in programs:
            program.send()
            assert program.wait() == 0 and "right" in program.out, f"{program}\n{self.region.log}"

    def states(self):
        bridges = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
        return [client["state"] for bridge in bridges for client in bridge["clients"]]


@pytest.fixture
def suspended(region, scratch):
    return Suspended(region, scratch / "set")


def model(name, *arguments):
    return [BUILD / "e2e" / name, *arguments, f"seed={SEED}", "threads=2"]


# ---- a VM without programs ---------------------------------------------------------------------------------------------
def test_a_vm_without_programs_is_suspended_and_wakes(suspended):
    suspended.suspend()
    assert sorted(path.name for path in suspended.folder.iterdir()) == ["books.zst", "region.zst", "set.json"]
    suspended.wake()
    suspended.ends_well(suspended.begin("later", "hold", 16))


def test_it_wakes_by_the_command_in_a_new_file_too(suspended):
    suspended.suspend()
    suspended.region.path.unlink()
    log = suspended.region.folder
    bridge = Program(log, "woken", [BARCUDA, "wake", suspended.folder, "--no-vm", "--device", "soft", "--log-level", "info"])
    try:
        bridge.wait_for("awake, with 0 clients")
        bridge.wait_for("serves|software GPU|GPU:")
        suspended.ends_well(suspended.begin("later", "hold", 16))
    finally:
        bridge.kill(signal.SIGTERM)


def test_what_is_awake_is_not_woken_again_in_its_place(suspended):
    suspended.suspend()
    suspended.wake()
    suspended.region.stop()
    suspended.is_refused("a bridge has served it since")


def test_a_vm_without_a_folder_is_not_suspended_to_its_own_name(suspended):
    suspended.region.stop()
    suspended.serve("--name", "some-vm")
    ran = run(BARCUDA, "suspend", "some-vm")
    assert ran.status != 0 and "name the folder, too" in ran.err, ran
    assert suspended.region.bridge.runs()


# ---- programs that go on -----------------------------------------------------------------------------------------------
def zeroed(path):
    """The same file, without one of its bytes."""
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.truncate(0)
        file.truncate(size)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_program_that_ends_while_it_is_suspended_is_left_out(suspended, how):
    first, second = suspended.begin("first", "hold", 16), suspended.begin("second", "hold", 24)
    suspended.suspend()
    first.send_signal(how)
    first.wait()
    suspended.wake()
    assert "with 1 client" in suspended.region.log and "has ended while it was suspended" in suspended.region.log
    suspended.ends_well(second)
    until(lambda: not suspended.states(), "both are gone")


@pytest.mark.parametrize("how", ["it_runs", "stopped", "its_region_was_zeroed"])
def test_a_program_goes_on_in_another_worker(suspended, how):
    programs = [suspended.begin("first", "hold", 16), suspended.begin("second", "hold", 24)]
    for program in programs:
        if how != "it_runs":
            program.send_signal(signal.SIGSTOP)
    workers = suspended.region.bridge.workers()
    inode = suspended.region.path.stat().st_ino
    suspended.suspend()
    if how == "its_region_was_zeroed":
        zeroed(suspended.region.path)
    suspended.wake()
    assert suspended.region.path.stat().st_ino == inode
    assert "with 2 clients" in suspended.region.log
    assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)
    for program in programs:
        program.send_signal(signal.SIGCONT)
    suspended.ends_well(*programs)
    for program in programs:
        suspended.region.wait_for_log(rf"reclaimed.*pid {program.pid},")


def test_a_worker_that_is_ending_is_waited_for(suspended, scratch):
    """Its program has ended just before. Here its wrapper takes its time."""
    suspended.region.stop()
    may_end = scratch / "may end"
    wrapper = written(scratch / "wrap", f"""#!/bin/bash
"$@"
until [[ -e '{may_end}' ]]; do sleep 0.05; done
""")
    wrapper.chmod(0o755)
    suspended.serve("--worker-wrapper", wrapper)
    ran = suspended.region.client(BUILD / "e2e/trains", "steps=2")
    assert ran.status == 0, ran
    command = Program(suspended.region.folder, "suspend", [BARCUDA, "suspend", "--region", suspended.region.path, suspended.folder])
    suspended.region.bridge.wait_for("suspend: begin")
    may_end.touch()
    assert command.wait() == 0 and "suspended to" in command.out, f"{command}\n{suspended.region.log}"
    suspended.wake()


# A GPU trains for a tenth of a second where the software GPU does for seconds.
STEPS = 3000 if DEVICE == "soft" else 100000
# What of a running program may stand in the way at this moment.
FOR_NOW = "can be carried|did not end within the time"


@pytest.mark.parametrize("stops, builds", [(True, [BRIDGE]), (False, [BRIDGE]), (False, [MORE_ROWS, BRIDGE])],
                         ids=["stopped", "in_its_calls", "under_builds_with_other_numbers"])
@pytest.mark.parametrize("command", [
    model("managed_heap_model", "steps=3000"),
    [BUILD / "e2e/trains", f"steps={STEPS}", f"seed={SEED}"],
], ids=["managed_memory", "training"])
def test_programs_compute_what_they_always_do(suspended, command, stops, builds):
    alone = suspended.region.client(*command)
    assert alone.status == 0, alone
    at_random = random.Random(SEED)
    program = suspended.region.background("model", *command)
    carried = 0
    while program.runs() and carried < 5:
        try:
            program.process.wait(at_random.uniform(0.05, 0.3))
        except subprocess.TimeoutExpired:
            pass
        if not program.runs() or not suspended.states():
            continue
        if stops:
            program.send_signal(signal.SIGSTOP)
        ran = suspended.ask("--within", "2s", suspended.folder)
        if ran.status == 0:
            assert suspended.region.bridge.wait() == 0, suspended.region.log
            if stops and carried % 2:
                zeroed(suspended.region.path)
            suspended.build = builds[carried % len(builds)]
            suspended.wake()
            shutil.rmtree(suspended.folder)
            carried += 1
        else:
            assert re.search(FOR_NOW, ran.err), f"{ran}\n{suspended.region.log}"
        program.send_signal(signal.SIGCONT)
    assert program.wait() == 0, f"{program}\n{suspended.region.log}"
    assert program.out == alone.out
    assert carried, suspended.region.log


# ---- builds of other days ------------------------------------------------------------------------------------------------
LACKING = "cuStreamGetPriority", "cuMemsetD2D8Async"


@pytest.fixture
def newer(suspended):
    """A bridge, and the library of its programs, that have two commands which this build does not have."""
    folder = suspended.region.folder
    suspended.region.change_library("other", *LACKING)
    shutil.copytree(BUILD / "lib/barcuda-soft", folder / "lib/barcuda-soft", symlinks=True)
    (folder / "bin").mkdir()
    suspended.build = shutil.copy(MORE_ROWS, folder / "bin")
    succeed(BUILD / "e2e/rows", suspended.build, "other", *LACKING)
    suspended.serve()
    return suspended.build


@pytest.mark.parametrize("first, then", [(BRIDGE, MORE_ROWS), (MORE_ROWS, BRIDGE)], ids=["to_one_with_more", "to_one_with_fewer"])
def test_programs_of_one_build_and_of_the_other_go_on_together(suspended, first, then):
    suspended.build = first
    suspended.serve()
    programs = [suspended.begin("first", "facts", "before")]
    for build in then, first, then:
        suspended.suspend()
        suspended.build = build
        suspended.wake()
        programs.append(suspended.begin(f"program{len(programs)}", "facts"))
        shutil.rmtree(suspended.folder)
    suspended.ends_well(*programs)
    for program in programs:
        assert "priority cudaSuccess, rows cudaSuccess, behind them cudaSuccess\nright" in program.out, program


def test_a_command_that_its_program_has_used_and_this_build_lacks_is_refused_by_name(suspended, newer):
    program = suspended.begin("program", "facts", "before")
    program.send_signal(signal.SIGSTOP)
    suspended.suspend()
    suspended.build = BRIDGE
    suspended.is_refused("its program uses (cuStreamGetPriority|cuMemsetD2D8Async), which barcuda .* does not have: wake it with the build")
    suspended.build = newer
    suspended.wake()
    program.send_signal(signal.SIGCONT)
    suspended.ends_well(program)


def test_a_command_that_its_program_has_not_used_and_this_build_lacks_is_not_supported_later(suspended, newer):
    program = suspended.begin("program", "facts", env={"BARCUDA_LOG": "debug"})
    suspended.suspend()
    suspended.build = BRIDGE
    suspended.wake()
    suspended.ends_well(program)
    assert "priority cudaErrorNotSupported, rows cudaSuccess, behind them cudaErrorNotSupported" in program.out, program
    assert "barcuda: cuMemsetD2D8Async: CUDA_ERROR_NOT_SUPPORTED" in program.log, program
    for name in LACKING:
        suspended.region.wait_for_log(f"the program calls {name}, which barcuda .* does not have")


# ---- what cannot be carried --------------------------------------------------------------------------------------------
def test_a_check_says_which_clients_can_be_carried_and_changes_nothing(suspended):
    first = suspended.begin("first", "hold", 16)
    ran = suspended.ask("--check")
    assert ran.status == 0 and "yes" in ran.out, ran
    shows = suspended.begin("shows", "shows")
    ran = suspended.ask("--check")
    assert ran.status == 1 and "yes" in ran.out and "no" in ran.out and "cudaIpc" in ran.out, ran
    assert suspended.states() == ["running", "running"]
    ran = suspended.ask(suspended.folder)
    assert ran.status == 1 and "not every client can be carried; nothing was changed" in ran.err, ran
    assert not suspended.folder.exists() and not suspended.folder.with_name("set.part").exists()
    until(lambda: suspended.states() == ["running", "running"], "both run again")
    suspended.ends_well(first, shows)


@pytest.mark.parametrize("mode, what", [("pools", "in the order of a stream"), ("draws", "a generator of cuRAND that has drawn numbers")])
def test_what_cannot_be_carried_is_named_and_goes_on(suspended, mode, what):
    program = suspended.begin("program", mode)
    until(lambda: "running" in program.out or not program.runs(), program)
    if not program.runs() and program.wait() == 77:
        pytest.skip("there is no cuRAND")
    ran = suspended.ask(suspended.folder)
    assert ran.status == 1 and what in ran.out and "nothing was changed" in ran.err, ran
    assert not suspended.folder.exists()
    suspended.ends_well(program)


def test_where_work_does_not_end_nothing_is_changed(suspended):
    spins, other = suspended.begin("spins", "spins"), suspended.begin("other", "hold", 16)
    ran = suspended.ask("--within", "1s", suspended.folder)
    assert ran.status == 1 and "did not end within the time" in ran.err, ran
    assert not suspended.folder.exists()
    until(lambda: suspended.states() == ["running", "running"], "both run again")
    suspended.ends_well(other, spins)


def test_where_the_bridge_is_killed_meanwhile_the_next_one_lets_all_run_again(suspended):
    spins, other = suspended.begin("spins", "spins"), suspended.begin("other", "hold", 16)
    command = subprocess.Popen([BARCUDA, "suspend", "--region", suspended.region.path, "--within", "60s", suspended.folder])
    until(lambda: "held" in suspended.states(), "one client waits for the other")
    command.kill()
    command.wait()
    os.kill(suspended.region.bridge.proper, signal.SIGKILL)
    suspended.region.bridge.wait_for("suspend: begun again")
    suspended.region.bridge.wait_for("says nothing more")
    until(lambda: suspended.states() == ["running", "running"], "both run again")
    suspended.ends_well(other, spins)


def test_a_folder_that_is_there_is_not_written_to(suspended):
    suspended.folder.mkdir()
    (suspended.folder / "mine").touch()
    ran = suspended.ask(suspended.folder)
    assert ran.status == 1 and "it is there already" in ran.err, ran
    assert [path.name for path in suspended.folder.iterdir()] == ["mine"]
    suspended.ends_well(suspended.begin("later", "hold", 16))


def test_another_user_suspends_nothing(suspended, scratch):
    if not may_be_other_user():
        pytest.skip("needs root, and setpriv, to be another user")
    scratch.chmod(0o777)
    ran = run(*other_user(BARCUDA), "suspend", "--region", suspended.region.path, suspended.folder)
    assert ran.status == 1 and not suspended.folder.exists(), ran
    suspended.ends_well(suspended.begin("later", "hold", 16))


# ---- what cannot be woken ----------------------------------------------------------------------------------------------
def test_a_damaged_set_is_refused_and_its_program_can_go_on_yet(suspended):
    program = suspended.begin("first", "hold", 16)
    program.send_signal(signal.SIGSTOP)
    suspended.suspend()
    for name in sorted(suspended.contents()):
        path = suspended.folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1:])
        suspended.is_refused("damaged")
        path.write_bytes(whole[:-1])
        suspended.is_refused("cut short|damaged") if path.name != "set.json" else None
        path.write_bytes(whole)
    suspended.wake()
    program.send_signal(signal.SIGCONT)
    suspended.ends_well(program)


def test_numbers_that_differ_are_refused(suspended):
    program = suspended.begin("first", "hold", 16)
    program.send_signal(signal.SIGSTOP)
    suspended.suspend()
    before = suspended.contents()
    part = suspended.folder / "region.zst"
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(AssertionError, match="--base says"):  # which is said before the parts are read
        suspended.serve("--wake", suspended.folder, "--base", "0x300000000000")
    part.write_bytes(whole)
    ran = run(BUILD / "bin/barcuda-bridge", "--region", suspended.region.path, "--no-vm", "--device", "soft", "--wake", suspended.folder)
    assert ran.status == 1 and "only --device-memory blocks gives again" in ran.err, ran
    assert suspended.contents() == before
    suspended.wake()
    program.send_signal(signal.SIGCONT)
    suspended.ends_well(program)
