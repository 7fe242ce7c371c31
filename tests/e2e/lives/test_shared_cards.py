# SPDX-License-Identifier: Apache-2.0
"""Bridges that share a card (--cards): their clients together have three times its memory, and each computes what it always does, while
bridges, workers and clients are killed. More: BARCUDA_TEST_MINUTES=30."""
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, LIBRARIES, Program, needs_soft, run, succeed, until
from e2e.lives.test_keeper import kill_bridge

# What asks all bridges meets those of other tests, which may hang on purpose.
pytestmark = [needs_soft("needs a card of 512 MiB"), pytest.mark.usefixtures("own_shm")]

MINUTES = float(os.environ.get("BARCUDA_TEST_MINUTES", "0.15"))
MIB = 1 << 20
CROWD = BUILD / "e2e/crowd"


# A native process that takes memory, and stays. (The runtime's own library would not load this driver.)
STRANGER = """
import ctypes, signal, sys
cuda, context, at = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_uint64()
for call in (lambda: cuda.cuInit(0), lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), lambda: cuda.cuCtxSetCurrent(context),
             lambda: cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[2])))):
    if status := call():
        sys.exit(f"the driver says {status}")
print("working", flush=True)
signal.pause()
"""


class Book:
    """The file of cards (host-bridge/between/cards.h), as another process of the user sees it."""
    HEAD, BRIDGE, CARD, ROW = struct.Struct("<QII"), struct.Struct("<IIQ"), struct.Struct("<16sIIQ"), struct.Struct("<6I10Q")

    def __init__(self, path):
        self.path = path

    def rows(self):
        """(bridge, slot, promised, out, wanted) of each client."""
        data, found = self.path.read_bytes(), []
        at = self.HEAD.size + 64 * self.BRIDGE.size
        for _ in range(16):
            at += self.CARD.size
            for _ in range(256):
                member, slot, *_, promised, out, wanted = self.ROW.unpack_from(data, at)[:9]
                if member:
                    found.append((member - 1, slot, promised, out, wanted))
                at += self.ROW.size
        assert at == len(data), "the book has another form"
        return found

    def promised(self):
        return sum(row[2] for row in self.rows())


class Card:
    """Bridges that share a card, by a book of their own."""

    def __init__(self, regions, folder):
        self.regions, self.book, self.sides = regions, Book(folder / "cards"), []
        self.variables = {"BARCUDA_SOFT_MEMORY": "512M", "BARCUDA_SOFT_CARD": folder / "card"}  # of all processes that use it

    def side(self, *options, store="2G", reserve="16M"):
        region = self.regions()
        self.sides.append(region)
        self.serve(region, "--store", store, "--card-reserve", reserve, *options)
        return region

    def serve(self, region, *options):
        region.serve("--warm", "0", "--device-memory", "blocks", "--cards", self.book.path, "--name", f"side{self.sides.index(region)}", *options,
                     env=self.variables)


@pytest.fixture
def card(regions, scratch):
    return Card(regions, scratch)


def crowd(region, name, mib, rounds, rest=20):
    return region.background(name, CROWD, mib, rounds, random.randrange(1, 1 << 30), rest)


def shared(region):
    """What `barcuda ps` says of the bridge's shared memory."""
    for bridge in json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]:
        if bridge["region"] == str(region.path):
            return bridge
    raise AssertionError(f"no bridge of {region.path}")


def nobody_has_anything(card):
    until(lambda: not card.book.rows(), lambda: f"the book is empty: {card.book.rows()}")
    for side in card.sides:
        until(lambda: shared(side)["store"]["held"] == 0, lambda: f"the store is empty: {shared(side)['store']}")


def test_six_clients_of_three_bridges_have_three_times_the_cards_memory(card):
    sides = [card.side() for _ in range(3)]
    clients = [crowd(side, f"client{i}", 256, 12) for side in sides for i in range(2)]
    for client in clients:
        assert client.wait() == 0 and "right" in client.out, f"{client}{[side.log for side in sides]}"
    nobody_has_anything(card)
    assert sum(shared(side)["shared_memory"]["moved_out"] for side in sides) > 0


def test_a_kill_of_anything_costs_no_other_client_a_byte(card):
    """Six clients. Two bridges have one each that is spared; of the third one also the keeper is killed, with all that it has."""
    sides = [card.side() for _ in range(3)]
    started, clients, killed = 0, [], dict.fromkeys(("bridge", "worker", "client", "keeper"), 0)
    end = time.monotonic() + 60 * MINUTES
    spared = [crowd(side, "spared", 250, 20 + int(400 * MINUTES)) for side in sides[:2]]
    while time.monotonic() < end:
        clients = [client for client in clients if client.runs()]
        while len(clients) < 4:
            side = random.choice(sides)
            clients.append(crowd(side, f"client{started}", random.randrange(150, 400), random.randrange(1, 12)))
            clients[-1].side = side
            started += 1
        time.sleep(random.random() * 0.6)
        victim, what = random.choice(clients), random.choices(list(killed), (3, 3, 3, 1))[0]
        killed[what] += 1
        if what == "bridge":
            kill_bridge(random.choice(sides).bridge)
        elif what == "client":
            victim.kill()
        elif what == "keeper":
            sides[2].bridge.kill()
            card.sides.remove(sides[2])
            sides[2] = card.side()
        elif found := re.search(rf"worker (\d+): pid {victim.pid},", victim.side.log):
            try:
                os.kill(int(found[1]), signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert card.book.promised() <= 496 * MIB, card.book.rows()
        for client in clients:
            assert "not as they were left" not in client.log and "wrong" not in client.out, client
    for client in spared:
        assert client.wait() == 0 and "right" in client.out, f"{killed}: {client}{[side.log for side in sides]}"
    for client in clients:
        client.wait()
        assert "not as they were left" not in client.log and "wrong" not in client.out, client
    nobody_has_anything(card)
    print(f"killed: {killed}, clients: {started}")
    for side in sides:
        side.stop()


def test_a_client_is_refused_what_a_pinned_guest_has_and_gets_it_later(card):
    pinned, other = card.side("--guest-memory-pinned", "on"), card.side("--wait", "2")
    holder = crowd(pinned, "holder", 400, 1_000_000, rest=500)
    holder.wait_for("working")
    refused = crowd(other, "refused", 300, 1)
    assert refused.wait() == 2 and "out of memory" in refused.log, refused
    other.wait_for_log(r"cards: channel 0: .* of device memory refused after 2\.\d s: the card has no room")
    assert shared(other)["shared_memory"]["refusals"] == 1
    succeed(BARCUDA, "limit", "--region", pinned.path, "guest-memory-pinned=off")
    patient = card.side()
    served = crowd(patient, "served", 300, 1)
    assert served.wait() == 0, f"{served}{pinned.log}{patient.log}"
    holder.kill()
    nobody_has_anything(card)


def test_clients_whose_memory_comes_and_goes_are_paused_and_go_on(card):
    sides = [card.side() for _ in range(2)]
    clients = [crowd(side, f"client{i}", 300, 15) for i, side in enumerate(sides)]
    pauses = 0
    while any(client.runs() for client in clients):
        side = random.choice(sides)
        keeps = random.choice([(), ("--keep-memory",)])
        pauses += run(BARCUDA, "pause", "--region", side.path, *keeps).status == 0
        time.sleep(random.random() * 0.3)
        until(lambda: run(BARCUDA, "resume", "--region", side.path).status == 0, "the clients go on")
        time.sleep(random.random() * 0.3)
    for client in clients:
        assert client.wait() == 0 and "right" in client.out, f"{client}{[side.log for side in sides]}"
    assert pauses > 0
    nobody_has_anything(card)


def test_a_paused_client_gives_its_memory_and_returns_when_there_is_room(card):
    pinned, other = card.side("--guest-memory-pinned", "on"), card.side("--guest-memory-pinned", "on", "--wait", "30")
    first = crowd(pinned, "first", 400, 40, rest=50)
    first.wait_for("working")
    succeed(BARCUDA, "pause", "--region", pinned.path)
    until(lambda: card.book.promised() == 0, lambda: f"it gives up what it was promised: {card.book.rows()}")
    second = crowd(other, "second", 300, 1_000_000)
    second.wait_for("working")
    refused = run(BARCUDA, "resume", "--region", pinned.path)
    assert refused.status != 0 and "other programs have the memory of GPU 0" in refused.err, refused
    assert first.runs() and second.runs(), f"{first}{second}"
    second.kill()
    until(lambda: run(BARCUDA, "resume", "--region", pinned.path).status == 0, "the client goes on")
    assert first.wait() == 0 and "right" in first.out, f"{first}{pinned.log}"
    nobody_has_anything(card)


def test_what_remains_of_an_idle_client_leaves_a_full_card_and_returns_when_it_is_used(card):
    idle, other = card.side("--context-idle", "1s"), card.side("--wait", "30")
    parked = idle.background("parked", BUILD / "e2e/pooled", 300, "hold", stdin=subprocess.PIPE)
    parked.wait_for("working")
    working = crowd(other, "working", 400, 20, rest=50)
    until(lambda: shared(idle)["clients"][0]["state"] == "parked", lambda: f"it leaves: {shared(idle)}{idle.log}{other.log}")
    working.wait_for("working")
    succeed(BARCUDA, "resume", "--region", idle.path)
    assert shared(idle)["clients"][0]["state"] == "parked", "a resume leaves it where it is"
    kill_bridge(idle.bridge)
    parked.send()
    assert parked.wait() == 0 and "right" in parked.out, f"{parked}{idle.log}{other.log}"
    assert working.wait() == 0 and "right" in working.out, f"{working}{other.log}"
    nobody_has_anything(card)


def test_a_parked_client_that_has_more_than_may_be_promised_returns_to_an_empty_card(card):
    idle, other = card.side("--context-idle", "1s", reserve="64M"), card.side("--wait", "30")
    parked = idle.background("parked", BUILD / "e2e/pooled", 480, "hold", stdin=subprocess.PIPE)
    parked.wait_for("working")
    assert crowd(other, "working", 400, 20, rest=50).wait() == 0
    assert shared(idle)["clients"][0]["state"] == "parked", idle.log
    parked.send()
    assert parked.wait() == 0 and "right" in parked.out, f"{parked}{idle.log}{other.log}"
    nobody_has_anything(card)


def test_without_pressure_an_idle_clients_context_stays(card):
    idle, other = card.side("--context-idle", "1s"), card.side()
    stays = idle.background("stays", BUILD / "e2e/pooled", 200, "hold", stdin=subprocess.PIPE)
    stays.wait_for("working")
    assert crowd(other, "working", 200, 60, rest=50).wait() == 0
    assert "parked" not in idle.log, idle.log
    stays.send()
    assert stays.wait() == 0, f"{stays}{idle.log}"


def test_top_has_a_column_of_what_is_out_where_cards_are_shared(card):
    first, other = card.side(), card.side()
    holder = first.start("holder", BUILD / "e2e/pauses", "hold", 400, stdin=subprocess.PIPE)
    neighbour = crowd(other, "neighbour", 400, 1_000_000, rest=500)
    neighbour.wait_for("working")

    def columns(pid):
        lines = succeed(BARCUDA, "top", "--once", "--interval", "0.1").splitlines()
        headings = next(line for line in lines if "PROGRAM" in line).split()
        row = next((line for line in lines if f" {pid} " in line), "").split()
        assert headings[headings.index("MEMORY") + 1:][:3] == ["OUT", "MOVED", "WAITS"], lines
        return dict(zip(headings, row))
    until(lambda: columns(holder.pid).get("OUT", "-") != "-" and columns(holder.pid)["MOVED"] != "-", lambda: f"it is out: {columns(holder.pid)}")
    until(lambda: columns(neighbour.pid)["WAITS"] not in ("-", "0"), lambda: f"it has waited: {columns(neighbour.pid)}")


def test_a_pool_gets_room_from_a_client_that_rests(card):
    first, other = card.side(), card.side("--wait", "5")
    holder = first.start("holder", BUILD / "e2e/pauses", "hold", 400, stdin=subprocess.PIPE)
    pooled = other.background("pooled", BUILD / "e2e/pooled", 200)
    assert pooled.wait() == 0, f"{pooled}{other.log}"
    refused = other.background("refused", BUILD / "e2e/pooled", 600)
    assert refused.wait() == 2, f"the card is smaller: {refused}{other.log}"
    holder.send()
    assert holder.wait() == 0, f"{holder}{first.log}"
    nobody_has_anything(card)


def test_a_lock_that_is_held_costs_others_time_alone(card):
    side = card.side()
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    with open(card.book.path, "r+b") as book:
        fcntl.fcntl(book, 37, lock)  # F_OFD_SETLK: as a bridge that hangs
        client = crowd(side, "client", 100, 3)
        until(lambda: shared(side)["shared_memory"]["lacks"] != 0, "the client waits")
        side.wait_for_log("the file of cards: another process holds its lock")
    assert client.wait() == 0, f"{client}{side.log}"
    nobody_has_anything(card)


def test_a_stranger_that_takes_the_cards_memory_costs_others_time_alone(card, scratch):
    side = card.side()
    stranger = Program(scratch, "stranger", [sys.executable, "-c", STRANGER, LIBRARIES / "barcuda-soft/libcuda.so.1", 250 * MIB], env=card.variables)
    try:
        stranger.wait_for("working")
        succeed(BARCUDA, "smi", env=side.guest)  # NVML is asked, so the bridge knows of the stranger
        client = crowd(side, "client", 300, 3)
        until(lambda: shared(side)["shared_memory"]["lacks"] != 0, lambda: f"the client waits: {client}")
        assert stranger.runs() and client.runs(), f"{stranger}{client}"
    finally:
        stranger.kill()
    assert client.wait() == 0, f"{client}{side.log}"
    nobody_has_anything(card)


def test_a_client_that_waits_for_memory_is_suspended_and_asks_again(card, scratch):
    side = card.side("--no-vm")
    stranger = Program(scratch, "stranger", [sys.executable, "-c", STRANGER, LIBRARIES / "barcuda-soft/libcuda.so.1", 300 * MIB], env=card.variables)
    try:
        stranger.wait_for("working")
        succeed(BARCUDA, "smi", env=side.guest)  # NVML is asked, so the bridge knows of the stranger
        client = side.background("client", BUILD / "e2e/pauses", "hold", 300, stdin=subprocess.PIPE)
        until(lambda: shared(side)["shared_memory"]["lacks"] != 0, lambda: f"the client waits: {client}")
        bridge = side.bridge
        succeed(BARCUDA, "suspend", "--region", side.path, scratch / "set")
        assert bridge.wait() == 0 and client.runs(), f"{client}{side.log}"
    finally:
        stranger.kill()
    card.serve(side, "--store", "2G", "--card-reserve", "16M", "--no-vm", "--wake", scratch / "set")
    side.wait_for_log("awake, with 1 client")
    client.wait_for("running")
    client.send()
    assert client.wait() == 0 and "right" in client.out, f"{client}{side.log}"
    nobody_has_anything(card)


def test_a_bridge_that_cannot_go_on_at_once_tries_again(card):
    side = card.side()
    client = side.start("client", BUILD / "e2e/pauses", "hold", 100, stdin=subprocess.PIPE)
    book = card.book.path.read_bytes()
    proper = until(lambda: side.bridge.proper, "a bridge serves")
    os.kill(proper, signal.SIGSTOP)
    os.truncate(card.book.path, 0)
    os.kill(proper, signal.SIGKILL)
    side.wait_for_log("the bridge ended with status 1; another one goes on with its clients")
    card.book.path.write_bytes(book)
    side.wait_for_log("this bridge goes on with the 1 client")
    client.send()
    assert client.wait() == 0 and "right" in client.out, f"{client}{side.log}"
    nobody_has_anything(card)


def test_a_stranger_that_comes_before_a_return_costs_time_alone(card, scratch):
    first, other = card.side(), card.side()
    holder = first.start("holder", BUILD / "e2e/pauses", "hold", 400, stdin=subprocess.PIPE)
    neighbour = crowd(other, "neighbour", 400, 1_000_000)
    neighbour.wait_for("working")
    neighbour.kill()
    until(lambda: card.book.promised() < 200 * MIB, lambda: f"the card is free: {card.book.rows()}")
    stranger = Program(scratch, "stranger", [sys.executable, "-c", STRANGER, LIBRARIES / "barcuda-soft/libcuda.so.1", 300 * MIB], env=card.variables)
    try:
        stranger.wait_for("working")  # no bridge has heard of it, so the return is promised
        holder.send()
        first.wait_for_log("of memory do not come back to the GPU yet")
        assert stranger.runs() and holder.runs(), f"{stranger}{holder}"
    finally:
        stranger.kill()
    assert holder.wait() == 0, f"{holder}{first.log}"
    nobody_has_anything(card)


def test_changes_beside_a_stranger_that_comes_and_goes_cost_no_client(card, scratch):
    """Two clients that take turns, and a native process that eats the card in between. Many changes: BARCUDA_TEST_CHANGES=1000."""
    changes, had = int(os.environ.get("BARCUDA_TEST_CHANGES", "4")), []

    def stranger():
        its = Program(scratch, "stranger", [sys.executable, "-c", STRANGER, LIBRARIES / "barcuda-soft/libcuda.so.1", random.randrange(40, 250) * MIB],
                      env=card.variables)
        until(lambda: "working" in its.out or not its.runs(), "the stranger has memory, or there is none")
        had.append(its.runs())
        return its

    sides = [card.side() for _ in range(2)]
    one = stranger()  # of a free card
    clients = [crowd(side, "client", 300, 10 * changes) for side in sides]
    while True:
        time.sleep(random.random())
        one.kill()
        if not all(client.runs() for client in clients):
            break
        time.sleep(random.random())
        one = stranger()
    for client in clients:
        assert client.wait() == 0 and "right" in client.out, f"{client}{[side.log for side in sides]}"
    moved = sum(shared(side)["shared_memory"]["moved_out"] for side in sides)
    print(f"moved out: {moved // MIB} MiB, in changes of 300 MiB {moved // (300 * MIB)}; a stranger had memory {sum(had)} times of {len(had)}")
    assert moved > 0 and had[0]
    nobody_has_anything(card)


def test_memory_stays_where_it_is_without_a_store(card):
    first, other = card.side(store="0"), card.side("--wait", "2")
    holder = crowd(first, "holder", 400, 1_000_000, rest=500)
    holder.wait_for("working")
    refused = crowd(other, "refused", 300, 1)
    assert refused.wait() == 2, refused
    first.wait_for_log("the store has no room for its memory")
    holder.kill()
    nobody_has_anything(card)


def test_a_guest_sees_what_it_may_have_wherever_its_own_memory_is(card):
    first, other = card.side(), card.side()
    holder = crowd(first, "holder", 300, 1_000_000, rest=500)
    holder.wait_for("working")
    neighbour = crowd(other, "neighbour", 400, 1_000_000, rest=500)
    neighbour.wait_for("working")

    def memory(region):
        said = json.loads(succeed(BARCUDA, "smi", "--json", env=region.guest))["gpus"][0]["memory"]
        return said["total"], said["used"]
    until(lambda: memory(first)[0] == 496 * MIB and memory(first)[1] >= 300 * MIB, lambda: memory(first))
    until(lambda: memory(other)[0] == 496 * MIB and memory(other)[1] >= 400 * MIB, lambda: memory(other))


@pytest.mark.parametrize("options, why", [
    (("--cards", "on"), "--cards needs --device-memory blocks"),
    (("--cards", "some"), "on, off, or the path of a file"),
    (("--store", "1G"), "give --cards on, too"),
    (("--device-memory", "blocks", "--cards", "on", "--store", "1M"), "at least 32 MiB"),
    (("--device-memory", "blocks", "--cards", "on", "--store", "1G", "--store-ready", "2G"), "a part of --store"),
    (("--wait", "0"), "--wait"),
    (("--context-idle", "5m"), "give --cards on, too"),
    (("--context-idle", "5 days"), "--context-idle"),
    (("--guest-memory-pinned", "perhaps"), "on or off"),
])
def test_wrong_options_are_named(scratch, options, why):
    ran = run(BRIDGE, "--region", scratch / "region", "--device", "soft", *options)
    assert ran.status != 0 and why in ran.err, ran
    assert not (scratch / "region").exists()
