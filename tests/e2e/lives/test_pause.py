# SPDX-License-Identifier: Apache-2.0
"""`barcuda pause` and `resume`: programs that are paused at random times compute what they always do; the GPU holds nothing of a paused
client; each refusal changes nothing and names its reason; and a paused client can be listed, limited and killed.

Hundreds of pauses, of a millisecond to a minute: tests/hostile/lives.
"""
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from e2e.flat import BARCUDA, BUILD, Program, may_be_other_user, needs_soft, other_user, run, succeed, until

# `barcuda ps` ends with 1 where a bridge of another test hangs.
pytestmark = pytest.mark.usefixtures("own_shm")
PROGRAM = BUILD / "e2e/pauses"
# A card that no other test's processes share: the software GPU tells cards apart by their size.
CARD = 1000 + 2 * (os.getpid() % 400)  # MiB
SEED = 14021  # of the programs and of the pauses
STOPPED = 12  # seconds: longer than any process of the host waits for a guest's
WORK = "did not end within the time"


class Paused:
    """A bridge whose clients are paused."""

    def __init__(self, region):
        self.region = region
        self.serve()

    def serve(self, *options, env=None):
        self.region.serve("--no-vm", *options, env={"BARCUDA_SOFT_MEMORY": f"{CARD}M", **(env or {})})

    def ask(self, what, *options):
        return run(BARCUDA, what, "--region", self.region.path, *options)

    def pause(self, *options):
        ran = self.ask("pause", *options)
        assert ran.status == 0, ran

    def resume(self, *options):
        ran = self.ask("resume", *options)
        assert ran.status == 0, ran

    def refused(self, text, what, *options):
        ran = self.ask(what, *options)
        assert ran.status == 1 and text in ran.err, ran

    def limit(self, *options):
        succeed(BARCUDA, "limit", "--region", self.region.path, *options)

    def listed(self, pid):
        """What `barcuda ps --json` says of the client with this pid."""
        bridges = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
        return next(client for bridge in bridges if bridge["region"] == str(self.region.path)
                    for client in bridge["clients"] if client["pid"] == pid)

    def state(self, program):
        return self.listed(program.pid)["state"]

    def begin(self, name, *arguments):
        """A client that has what it needs, and waits for a line."""
        return self.region.start(name, PROGRAM, *arguments, stdin=subprocess.PIPE)

    def ends_well(self, *programs):
        """They get their line, and all is as it was."""
        for program in programs:
            program.send()
            assert program.wait() == 0 and "right" in program.out, program

    def is_reclaimed(self, program):
        self.region.wait_for_log(rf"reclaimed.*pid {program.pid},")


@pytest.fixture
def paused(region):
    return Paused(region)


@pytest.fixture
def first(paused):
    return paused.begin("first", "hold", 16)


# ---- programs that are paused again and again --------------------------------------------------------------------------
def pauses_of(paused, commands, *options):
    """Pauses the programs, one after the other, until the last one ends."""
    at_random = random.Random(SEED)
    for number, words in enumerate(commands):
        program = paused.region.background(f"program{number}", *(str(word).format(seed=SEED + number) for word in words))
        while program.runs():
            time.sleep(at_random.uniform(0.01, 0.05))
            ran = paused.ask("pause", *options)
            assert ran.status == 0 or WORK in ran.err, f"{ran}\n{program}"  # its GPU may wait for its next command all the time
            time.sleep(at_random.uniform(0.01, 0.05))
            paused.resume()
        assert program.wait() == 0, program


def model(name, *arguments):
    return [BUILD / "e2e" / name, *arguments, "seed={seed}", "threads=2"]


GRAPHS = [[BUILD / "programs" / name] for name in ("graph_capture", "graph_memory", "kernels", "host_functions", "two_streams", "stream_values")]


@pytest.mark.parametrize(("commands", "options"), [
    ([model("copy_model", "steps=1500")], []),
    ([model("copy_model", "steps=1500")], ["--keep-memory"]),
    ([model("managed_heap_model", "steps=500")], []),
    ([model("managed_model", "steps=500")], ["--keep-memory"]),
    ([model("api_model", "steps=300")], []),
    (GRAPHS, []),
], ids=["copies", "copies_with_their_memory_kept", "managed_memory", "managed_variables_with_their_memory_kept", "api", "graphs"])
def test_programs_that_are_paused_compute_what_they_always_do(paused, commands, options):
    pauses_of(paused, commands, *options)


@needs_soft("a driver that looks for room itself: the software GPU's with BARCUDA_SOFT_CARD")
def test_so_do_those_whose_driver_looks_for_room_itself(paused, scratch):
    paused.serve(env={"BARCUDA_SOFT_CARD": scratch / "card"})
    pauses_of(paused, [model("copy_model", "steps=1000")])


# ---- what a paused client is -------------------------------------------------------------------------------------------
def test_a_client_is_paused_by_its_pid_and_the_others_run(paused, first):
    second = paused.begin("second", "hold", 16)
    paused.pause("--client", first.pid)
    assert paused.state(first) == "away" and paused.state(second) == "running"
    paused.pause("--client", first.pid)  # once more is no error
    paused.resume("--client", first.pid)
    assert paused.state(first) == "running"
    paused.ends_well(first, second)


def test_a_client_whose_memory_is_kept_is_held_and_may_go_away_later(paused, first):
    second = paused.begin("second", "hold", 16)
    paused.pause("--client", first.pid, "--keep-memory")
    assert paused.state(first) == "held"
    paused.pause()
    assert paused.state(first) == paused.state(second) == "away"
    paused.resume()
    paused.ends_well(first, second)


def test_a_paused_client_is_limited_and_counted_and_the_log_names_the_user(paused, first):
    paused.pause()
    paused.limit("--client", first.pid, "objects=100000")

    def seconds():
        lines = succeed(BARCUDA, "metrics", "--clients").splitlines()
        return [float(line.rpartition(" ")[2]) for line in lines if line.startswith("barcuda_paused_seconds{")]
    until(lambda: any(seconds()), "the metrics say how long it is paused")
    paused.region.wait_for_log(rf"pause: channel 0: pause \(user {os.getuid()},")
    paused.resume()
    paused.ends_well(first)


def test_the_bridge_and_nvml_answer_a_paused_client_whose_calls_wait(paused):
    asks = paused.begin("asks", "asks")
    paused.pause("--within", "60s")
    asks.send()
    asks.wait_for("answered")
    assert paused.state(asks) == "away" and "right" not in asks.out
    paused.resume()
    paused.ends_well(asks)


def test_barcuda_smi_in_the_guest_says_paused(paused, first):
    def smi(*options):
        ran = paused.region.client(BARCUDA, "smi", *options)
        assert ran.status == 0, ran
        return ran.out

    def listed():
        all_ = json.loads(smi("--json"))
        return [(process["pid"], process["paused"]) for process in all_["gpus"][0]["processes"]], [process["pid"] for process in all_["away"]]
    until(lambda: listed() == ([(first.pid, False)], []), lambda: f"it runs: {smi()}")
    paused.pause("--keep-memory")
    until(lambda: listed() == ([(first.pid, True)], []), lambda: f"it is held: {smi()}")
    paused.pause()
    until(lambda: listed()[1] == [first.pid] or (first.pid, True) in listed()[0], lambda: f"it is away: {smi()}")
    assert [line for line in smi().splitlines() if str(first.pid) in line and "paused" in line], smi()
    paused.resume()
    until(lambda: listed() == ([(first.pid, False)], []), lambda: f"it runs again: {smi()}")
    paused.ends_well(first)


def test_a_client_that_is_stopped_is_not_taken_for_dead(paused):
    asks = paused.begin("asks", "asks")
    asks.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED)
    assert "reclaimed" not in paused.region.log
    asks.send_signal(signal.SIGCONT)  # its clock has run on, as that of many a guest that was stopped
    asks.send()
    asks.wait_for("answered")
    paused.ends_well(asks)
    assert not re.search(r"\b(warning|error|critical)\b", paused.region.log), paused.region.log


# ---- no room -----------------------------------------------------------------------------------------------------------
@needs_soft("a card of a size of its own")
def test_a_return_without_room_is_refused_and_succeeds_later(paused):
    first = paused.begin("first", "hold", CARD * 6 // 10)
    paused.pause("--client", first.pid)
    other = paused.begin("other", "hold", CARD * 6 // 10)
    paused.refused("GPU 0 has", "resume", "--client", first.pid)
    assert paused.state(first) == "away"
    paused.ends_well(other)
    paused.is_reclaimed(other)  # its memory is free
    paused.resume("--client", first.pid)
    paused.ends_well(first)


# ---- refusals ----------------------------------------------------------------------------------------------------------
def test_there_is_no_such_client(paused):
    paused.refused("no such client", "pause", "--client", 1)


def test_of_vms_with_one_name_each_has_another_to_be_paused_by(paused, regions):
    """`barcuda ps` shows them with the pids of their bridges."""
    paused.serve("--name", "vm1")
    regions().serve("--name", "vm1")
    for what in "pause", "resume":
        for name in "vm1", "vm2":
            ran = run(BARCUDA, what, name)
            assert ran.status == 1 and f"there is no VM with the name {name}; `barcuda ps` shows the VMs" in ran.err, ran
        assert run(BARCUDA, what, f"vm1/{paused.region.bridge.proper}").status == 0


def test_without_a_bridge_there_is_nothing_to_pause(paused):
    paused.region.stop()
    ran = paused.ask("pause")
    assert ran.status == 1 and "no bridge" in ran.err, ran


@pytest.mark.skipif(not may_be_other_user(), reason="needs root, to be another user")
def test_another_user_pauses_nothing(paused, first):
    os.chmod(paused.region.folder, 0o755)
    for what in "pause", "resume":
        ran = run(*other_user(BARCUDA, what, "--region", paused.region.path))
        assert ran.status == 1, ran
    assert paused.state(first) == "running"
    paused.ends_well(first)


def test_a_client_whose_gpu_waits_for_its_own_next_command_is_refused_within_the_time_and_lives(paused):
    waits = paused.begin("waits", "waits")
    paused.refused(WORK, "pause", "--client", waits.pid, "--within", "100ms")
    assert paused.state(waits) == "running"
    paused.ends_well(waits)


def test_where_one_of_several_cannot_be_paused_none_is(paused, first):
    waits = paused.begin("waits", "waits")
    paused.refused(WORK, "pause", "--within", "100ms")
    assert paused.state(waits) == paused.state(first) == "running"
    paused.pause("--client", first.pid)
    paused.refused(WORK, "pause", "--within", "100ms")
    assert paused.state(first) == "away", "a refused pause lets a client run that was paused before"
    paused.resume("--client", first.pid)
    paused.ends_well(waits, first)


def test_a_client_with_managed_variables_is_refused_and_computes_on(paused):
    program = paused.region.background("program", *model("managed_model", "seconds=3"))
    paused.region.wait_for_log("client admitted")

    def refused():
        ran = paused.ask("pause")
        paused.resume()
        return "__managed__ variables" in ran.err
    until(refused, "a pause is refused once the variables are there")
    paused.refused("__managed__ variables", "pause")
    assert program.wait() == 0, program


def test_a_client_whose_memory_others_may_open_is_refused_and_can_be_held(paused):
    shows = paused.begin("shows", "shows")
    paused.refused("other processes may open memory", "pause", "--client", shows.pid)
    assert paused.state(shows) == "running"
    paused.pause("--client", shows.pid, "--keep-memory")
    paused.resume("--client", shows.pid)
    paused.ends_well(shows)


def test_clients_that_share_memory_are_refused_and_name_each_other(paused):
    shows = paused.begin("shows", "shows")
    opens = paused.begin("opens", "opens", shows.wait_for(r"^handle (\w+)$")[1])
    paused.refused("shares memory, a pool or an event with the client of channel 1", "pause", "--client", shows.pid)
    paused.refused("shares memory, a pool or an event with the client of channel 0", "pause", "--client", opens.pid)
    assert paused.state(shows) == paused.state(opens) == "running"
    paused.pause("--keep-memory")
    paused.resume()
    paused.ends_well(shows, opens)


def test_a_client_whose_kernel_does_not_end_is_refused_and_lives(paused):
    spins = paused.begin("spins", "spins")
    paused.refused(WORK, "pause", "--within", "100ms")
    paused.refused(WORK, "pause", "--within", "100ms", "--keep-memory")
    assert paused.state(spins) == "running"
    paused.ends_well(spins)


def test_the_host_may_hold_no_more_than_its_limit(paused, first):
    paused.limit("guest-paused-memory=1M")
    paused.refused("guest-paused-memory", "pause", "--client", first.pid)
    assert paused.state(first) == "running"
    paused.limit("guest-paused-memory=none")
    paused.pause("--client", first.pid)
    paused.resume("--client", first.pid)
    paused.ends_well(first)


def test_a_client_in_a_wrapper_is_refused_and_can_be_held(paused):
    paused.serve("--worker-wrapper", "env")
    wrapped = paused.begin("wrapped", "hold", 16)
    paused.refused("wrapper", "pause")
    paused.pause("--keep-memory")
    paused.resume()
    paused.ends_well(wrapped)


# ---- ends --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("state", "options"), [("away", []), ("held", ["--keep-memory"])], ids=["away", "held"])
class TestEnds:
    def test_a_paused_client_is_killed(self, paused, first, state, options):
        paused.pause("--client", first.pid, *options)
        assert paused.state(first) == state
        first.kill()
        paused.is_reclaimed(first)

    def test_a_client_whose_worker_is_killed_while_it_is_paused_is_told(self, paused, first, state, options):
        paused.pause("--client", first.pid, *options)
        assert paused.state(first) == state
        os.kill(paused.listed(first.pid)["worker"], 9)
        first.send()
        assert first.wait() != 0 and "was killed" in first.log, first


def test_a_pause_of_a_client_that_is_gone_ends_well(paused):
    waits = paused.begin("waits", "waits")
    pausing = Program(paused.region.folder, "pausing", [BARCUDA, "pause", "--region", paused.region.path, "--client", waits.pid, "--within", "60s"])
    paused.region.programs.append(pausing)
    until(lambda: paused.state(waits) == "holding", "it is holding")
    waits.kill()
    paused.is_reclaimed(waits)
    assert pausing.wait() == 0, pausing


def test_a_bridge_whose_client_is_paused_ends_well(paused, first):
    paused.pause()
    paused.region.stop()
    first.send()
    assert first.wait() != 0, first
