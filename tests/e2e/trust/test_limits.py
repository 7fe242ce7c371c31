# SPDX-License-Identifier: Apache-2.0
"""What a client and a guest may have: device memory by any call, memory of the region, clients, objects, work, text, a worker's own
memory. Nothing is counted twice, all is back after each end, programs see the limit as the size of the card, and the limits can be seen
and changed while programs run."""
import json
import os
import re
import subprocess

import pytest

from e2e.flat import BARCUDA, BUILD, DEVICE, TOP, may_be_other_user, needs_soft, other_user, run, succeed, until

QUOTA, BOUNDS, ENDLESS = BUILD / "e2e/quota", BUILD / "e2e/bounds", BUILD / "e2e/endless"
MIB = 1 << 20
# NVIDIA's driver takes more as it needs it, in pieces of its own.
SLACK = 0 if DEVICE == "soft" else 28


def near(a, b):
    return abs(a - b) <= SLACK


class Limits:
    """`barcuda limit` for a region; and programs that take what it allows."""

    def __init__(self, region, own):
        self.region, self.own = region, own

    def run(self, *words):
        return run(BARCUDA, "limit", "--region", self.region.path, *words)

    def change(self, *words):
        ran = self.run(*words)
        assert ran.status == 0, ran

    def refused(self, text, *words):
        ran = self.run(*words)
        assert ran.status != 0 and text in ran.said, ran

    @property
    def all(self):
        return json.loads(succeed(BARCUDA, "limit", "--region", self.region.path, "--json"))

    def is_about(self, value, mib, clients=1):
        """A number of bytes is these MiB, and what the driver takes for each client."""
        return abs(value - mib * MIB - clients * self.own * MIB) <= SLACK * MIB

    def soon(self, condition):
        """Waits until the limits are so: a function of what `limit --json` says."""
        until(lambda: condition(self.all), lambda: f"the limits are so: {self.all}")

    def guest_uses(self, mib):
        return lambda all_: self.is_about(all_["guest"]["device-memory"]["use"], mib)

    def hold(self, mib):
        """A client that has so many MiB; a line makes it ask for more."""
        return self.region.start("holder", QUOTA, "hold", mib, stdin=subprocess.PIPE)

    def take(self, mib):
        """A client gets so many, and no more."""
        ran = self.region.client(QUOTA, "take")
        assert ran.status == 0 and near(int(ran.out), mib), f"{ran}, not {mib} MiB"

    def facts(self):
        """Free, total, and size of the card, in MiB, as a client sees them."""
        ran = self.region.client(QUOTA, "facts")
        assert ran.status == 0, ran
        return tuple(map(int, re.fullmatch(r"free (\d+) total (\d+) size (\d+)\n", ran.out).groups()))

    def killed(self, client):
        client.kill()
        self.region.wait_for_log("channel 0: reclaimed")


@pytest.fixture
def limits(region, drivers_own):
    return Limits(region, drivers_own)


@pytest.fixture
def card(drivers_own):
    """MiB of a limit that lets a program have 96: what the tests give comes on top of what the driver has."""
    return 96 + drivers_own


def test_the_page_of_limits_is_what_the_build_has():
    succeed(TOP / "docs/limits.py", "--build", BUILD, "--check")


# ---- device memory ----------------------------------------------------------------------------------------------------------------
def least_of(way):
    """MiB of 96 that a way to allocate must get. A driver gives each graph, and each image of code, more than it wants."""
    if DEVICE == "cuda" and way in ("graph node", "captured"):
        return 8
    if DEVICE == "cuda" and way in ("module", "library"):
        return 0  # the first image costs more than all of this
    return (76 if way == "mipmaps" else 92) - SLACK  # mipmaps: of two levels, which do not fill it


@pytest.mark.parametrize("which", [[], ["last"]], ids=["first device", "last device"])
def test_each_way_to_allocate_ends_at_a_clients_limit(limits, card, which):
    region = limits.region
    (region.folder / "bridge.conf").write_text(f"client-device-memory = {card}M\n")
    region.serve("--no-vm", "--config", region.folder / "bridge.conf", env={"BARCUDA_SOFT_DEVICES": 2})
    ran = region.client(QUOTA, "facts", *which)
    assert ran.status == 0 and f"total {card} size {card}" in ran.out and near(int(ran.out.split()[1]), 96), ran
    said = succeed(QUOTA, "ways", *which, env=region.guest)
    for way in "module", "library":  # NVIDIA's driver keeps the memory of unloaded code, which goes on counting: a process for each
        said += succeed(QUOTA, "way", way, *which, env=region.guest)
    print(said)
    ways = re.findall(r"^(.*): (\d+) (\d+)$", said, re.M)
    assert len(ways) == said.count(":") == 13 and "PASSED" in said.splitlines(), said
    for way, first, second in ways:
        if (DEVICE, way) not in (("cuda", "module"), ("cuda", "library")):
            assert near(int(first), int(second)), f"{way}: {first} MiB at first and {second} MiB then"
        assert least_of(way) <= int(first) <= 96 + SLACK, f"{way}: {first} MiB of 96"


@needs_soft("a GPU's NVML says what it has itself")
def test_nvml_shows_a_clients_limit_as_the_size_of_the_card(limits, card):
    limits.region.serve("--no-vm", "--client-device-memory", f"{card}M", env={"BARCUDA_SOFT_DEVICES": 2})
    assert f'"total": {card * MIB}' in succeed(BARCUDA, "smi", "--json", env=limits.region.named)


def test_a_guests_limit_is_for_all_of_its_clients_together(limits, card):
    limits.region.serve("--no-vm", "--client-device-memory", f"{card}M", "--guest-device-memory", f"{160 + 2 * limits.own}M")
    first = limits.hold(80)
    limits.take(80)  # beside 80 MiB of 160
    limits.soon(lambda all_: limits.is_about(all_["guest"]["device-memory"]["limit"], 160, clients=2) and limits.guest_uses(80)(all_))
    free, total, _ = limits.facts()
    assert total == card and near(free, 80)
    limits.killed(first)
    for _ in range(2):
        limits.take(96)  # after the first one's end


def test_a_bridge_without_limits_has_none(limits):
    limits.region.serve("--no-vm")
    assert limits.all["guest"]["device-memory"]["limit"] is None and not limits.all["clients"], limits.all


def test_limits_that_come_later_leave_programs_what_they_have(limits):
    region, own = limits.region, limits.own
    region.serve("--no-vm")
    first = limits.hold(80)
    if DEVICE == "soft":  # without a limit nothing asks NVML
        limits.soon(lambda all_: all_["clients"][0]["limits"]["device-memory"]["use"] == 80 * MIB)
    assert limits.all["clients"][0]["pid"] == first.pid, limits.all
    limits.change(f"guest-device-memory={100 + 2 * own}M")
    region.wait_for_log(rf"limits: guest-device-memory none -> .* \(user {os.getuid()}, pid \d*\)$")
    limits.soon(limits.guest_uses(80))  # the driver's own too, which nothing has asked for before
    limits.take(20)  # beside 80 MiB of 100
    assert limits.facts()[1:] == (100 + 2 * own, 100 + 2 * own)
    limits.refused("separate commands", "guest-device-memory=none", "client-device-memory=40M")
    limits.change("guest-device-memory=none")
    limits.change(f"client-device-memory={40 + own}M")
    first.send()
    first.wait_for("no more")
    limits.take(40)
    limits.change("--client", first.pid, f"device-memory={200 + own}M")
    region.wait_for_log(rf"limits: channel 0: device-memory .* -> .* \(user {os.getuid()}, pid \d*\)$")
    first.send()
    first.wait_for("^more")
    limits.take(40)  # the other clients' limit
    table = limits.run().out
    assert re.search(rf"client {first.pid} \(channel 0\) .*device-memory .*{200 + own}M \*", table), table
    limits.killed(first)
    limits.soon(lambda all_: all_["guest"]["device-memory"]["use"] == 0)  # the other clients' channels may be reclaimed later


def test_words_that_are_no_limits_are_refused(limits):
    limits.region.serve("--no-vm")
    limits.refused("there is no such limit", "client-memory=1G")
    limits.refused("NAME=VALUE", "client-device-memory")
    limits.refused("negative", "client-device-memory=-1")
    limits.refused("there is no such client", "--client", "1", "device-memory=1G")
    for value in "abc", "5G=3", "1e30", "nan":
        limits.refused(f"client-device-memory={value}: a number is expected", f"client-device-memory={value}")
    for name in "client-objects", "guest-channels", "weight":
        limits.refused(f"{name}=abc: a number is expected", f"{name}=abc")
    for value in "16E", "99999999999999999999":
        limits.refused(f"client-device-memory={value}: it is too large", f"client-device-memory={value}")
    for name in "guest-channels", "client-device-memory", "weight":
        limits.refused(f"{name}=0: 0 is not accepted", f"{name}=0")


def test_a_limit_may_have_a_fraction(limits):
    limits.region.serve("--no-vm")
    limits.change("client-worker-memory=1.5G")
    assert limits.all["each_client"]["worker-memory"] == 3 << 29, limits.all
    limits.change("client-worker-memory=none")


@pytest.mark.parametrize("words", [[], ["client-device-memory=1G"]], ids=["see", "change"])
def test_another_user_may_neither_see_nor_change_limits(limits, words):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv")
    limits.region.serve("--no-vm")
    limits.change("client-device-memory=40M")
    limits.region.folder.chmod(0o711)
    ran = run(*other_user(BARCUDA, "limit", "--region", limits.region.path, *words))
    assert ran.status != 0 and "only" in ran.said, ran
    assert limits.all["each_client"]["device-memory"] == 40 * MIB, limits.all


def test_limits_of_a_region_that_nothing_serves_are_refused(limits):
    limits.region.serve("--no-vm")
    limits.region.stop()
    limits.refused("no bridge serves this region")


# ---- a guest's part of the time ---------------------------------------------------------------------------------------------------
def test_a_bridge_without_turns_takes_no_weight(limits):
    limits.region.serve("--no-vm")
    assert limits.all["time"] == {"weight": None, "priority": None}
    limits.refused("take no turns", "weight=300")


def test_programs_take_turns_as_long_as_their_guest_has_a_weight(limits):
    region = limits.region
    turns = region.folder / "turns"
    region.serve("--no-vm", "--turns", turns)
    endless = region.start("endless", ENDLESS)

    def writes():
        """Programs that take turns write into the file."""
        before = turns.read_bytes()
        try:
            until(lambda: turns.read_bytes() != before, "", patience=0.3)
        except AssertionError:
            return False
        return True
    assert not writes(), "turns without a weight"
    limits.change("weight=300", "guest-channels=none")
    region.wait_for_log(r"limits: weight none, priority normal -> weight 300, priority normal \(user")
    assert limits.all["time"] == {"weight": 300, "priority": "normal"}
    until(writes, "turns with a weight")
    limits.change("priority=high")
    assert limits.all["time"] == {"weight": 300, "priority": "high"}
    table = limits.run().out
    assert re.search(r"^guest +priority +high$", table, re.M), table
    limits.change("weight=none")
    until(lambda: not writes(), "no turns without a weight any more")
    limits.refused("low, normal, high", "priority=highest")
    limits.refused("at most 10000", "weight=10001")
    limits.refused("separate commands", "weight=1", "client-objects=7")
    limits.refused("there is no such limit", "--client", endless.pid, "weight=3")
    limits.change("priority=low")
    assert limits.all["time"] == {"weight": 100, "priority": "low"}


def test_a_priority_alone_gives_the_usual_weight(limits):
    limits.region.serve("--no-vm", "--priority", "high", "--turns", limits.region.folder / "turns")
    assert limits.all["time"] == {"weight": 100, "priority": "high"}


# ---- all else ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("whose, mib", [("client", 64), ("guest", 96)])
def test_pinned_memory_ends_at_the_limit_of_region_memory(limits, whose, mib):
    limits.region.serve("--no-vm", f"--{whose}-region-memory", f"{mib}M")
    ran = limits.region.client(BOUNDS, "pinned")
    assert set(ran.out.split()) == {str(mib)}, ran
    if whose == "guest":
        limits.soon(lambda all_: all_["guest"]["region-memory"] == {"limit": mib * MIB, "use": 0})


def test_one_client_too_many_is_refused(limits):
    limits.region.serve("--no-vm", "--guest-channels", 1)
    limits.region.start("endless", ENDLESS)
    ran = limits.region.client(QUOTA, "facts")
    assert ran.status != 0 and "as many clients as it may have (1)" in ran.said, ran
    assert limits.all["guest"]["channels"] == {"limit": 1, "use": 1}


def test_objects_end_at_their_limit_and_all_of_them_are_released(limits):
    limits.region.serve("--no-vm", "--guest-channels", 1, "--client-objects", 200)
    limits.killed(limits.region.start("endless", ENDLESS))
    ran = limits.region.client(BOUNDS, "events")
    assert ran.status == 0, ran
    first, second = map(int, ran.out.split())
    assert first == second and 150 < first <= 200, ran


@pytest.mark.parametrize("most", [10, None])
def test_work_that_waits_ends_at_its_limit(limits, most):
    limits.region.serve("--no-vm", "--client-work", most or 0)
    queue = limits.region.start("queue", BOUNDS, "queue", "100", stdin=subprocess.PIPE)
    work = lambda all_: all_["clients"][0]["limits"]["work"]["use"]
    limits.soon(lambda all_: work(all_) == most if most else work(all_) > 100)
    queue.end_input()
    assert queue.wait() == 0, queue


def test_text_of_kernels_beyond_the_limit_is_dropped_and_the_log_says_so(limits):
    limits.region.serve("--no-vm", "--client-printf-text", "64K")
    printed = len(limits.region.client(BOUNDS, "print", 16384).out)
    assert 65536 <= printed < 400000
    assert "text is dropped" in limits.region.log
    limits.change("client-printf-text=none")
    assert len(limits.region.client(BOUNDS, "print", 16384).out) == MIB


def test_lines_of_the_log_that_there_is_no_room_for_are_left_out(limits):
    limits.region.serve("--no-vm", "--guest-log-text", 1, "--client-log-text", 1)
    limits.facts()
    assert not re.search("admitted|reclaimed", limits.region.log)
    limits.change("guest-log-text=1M")
    limits.change("client-log-text=none")
    limits.facts()
    limits.region.wait_for_log("lines were left out")
    limits.region.wait_for_log("client admitted")


def test_a_large_image_ends_at_the_limit_of_a_workers_memory(limits):
    out_of_memory = "2\n"
    limits.region.serve("--no-vm", "--client-worker-memory", "200M")
    assert limits.region.client(BOUNDS, "image").out == out_of_memory
    limits.change("client-worker-memory=none")
    assert limits.region.client(BOUNDS, "image").out != out_of_memory
