# SPDX-License-Identifier: Apache-2.0
"""The exporter of metrics answers though clients hold connections to it: some that say nothing, some that send a byte periodically, some that
ask and take no answer. All of these are closed in the end, and the exporter goes on."""
import re
import sys

import pytest

from e2e.flat import BARCUDA, Program, need, run, until, written

SLOW = r"""
import select, socket, sys, time
path, told = sys.argv[1], False
slow = []
def connect(kind):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        s.setblocking(False)
        if kind == 2: s.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
    except OSError: return
    slow.append((s, kind))
ended = [0, 0, 0]
most = 48
while min(ended) < 16:
    while len(slow) < most: connect(len(slow) % 3)
    for s, kind in list(slow):
        try:
            if kind == 1: s.send(b"G")
            gone = kind != 2 and s in select.select([s], [], [], 0)[0] and s.recv(64) == b""
            if kind == 2: s.send(b"\r\n")
        except BlockingIOError: gone = False
        except OSError: gone = True
        if gone: slow.remove((s, kind)), s.close(); ended[kind] += 1
    if not told: print("running", flush=True); told = True
    time.sleep(0.05)
print("all were closed", flush=True)
"""


class Exporter:
    def __init__(self, folder):
        self.socket = folder / "metrics"
        self.program = Program(folder, "exporter", [BARCUDA.with_name("barcuda-exporter"), "--listen", self.socket])
        until(lambda: self.socket.is_socket() or not self.program.runs(), "it listens")

    def is_scraped(self):
        ran = run("curl", "-sf", "--unix-socket", self.socket, "http://exporter/metrics")
        assert ran.status == 0 and re.search("^barcuda_bridges ", ran.out, re.M), f"{ran}{self.program}"


@pytest.fixture
def exporter(scratch):
    need("curl")
    exporter = Exporter(scratch)
    yield exporter
    exporter.program.kill()


def test_the_exporter_answers(exporter):
    exporter.is_scraped()


def test_the_exporter_answers_beside_slow_connections_and_closes_all_of_them(exporter, scratch):
    slow = Program(scratch, "slow", [sys.executable, written(scratch / "slow.py", SLOW), exporter.socket])
    try:
        slow.wait_for("^running$")
        for _ in range(5):
            exporter.is_scraped()
        slow.wait_for("^all were closed$")
    finally:
        slow.kill()
    exporter.is_scraped()
    assert exporter.program.runs(), exporter.program
