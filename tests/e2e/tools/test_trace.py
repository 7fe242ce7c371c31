# SPDX-License-Identifier: Apache-2.0
"""A trace is one JSON document for each run; those of two machines come onto one clock, by their contents alone."""
import json
import re

import pytest

from e2e.flat import BARCUDA, BUILD, RUN, run, succeed, written

SECONDS_APART = 5000
MICROSECONDS = 1e6


def read(file):
    return json.loads(file.read_text())


class Traces:
    """The trace of a program that has run twice, and its two halves; the worker's as another machine would have written it: with another clock,
    and with processes that have the same numbers."""

    def __init__(self, folder):
        self.folder, self.whole, self.guests, self.hosts = folder, folder / "trace.json", folder / "guest.json", folder / "host.json"
        for _ in range(2):
            succeed(*RUN, BUILD / "programs/two_streams", env={"BARCUDA_TRACE": self.whole})
        self.events = read(self.whole)
        self.names = {e["pid"]: e["args"] for e in self.events if e["name"] == "process_name"}
        self.worker = next(pid for pid, args in self.names.items() if args["name"].startswith("worker:"))
        self.guest = next(pid for pid in self.names if pid != self.worker)
        self.guests.write_text(json.dumps([e for e in self.events if e["pid"] == self.guest]))
        self.hosts.write_text(json.dumps([e | {"pid": self.guest} | ({"ts": e["ts"] - SECONDS_APART * MICROSECONDS} if "ts" in e else {})
                                          for e in self.events if e["pid"] == self.worker]))


@pytest.fixture(scope="module")
def traces(shared):
    return Traces(shared)


def test_the_trace_is_that_of_the_last_run_with_its_guest_and_its_worker(traces):
    assert sorted(args["name"].split()[0] for args in traces.names.values()) == ["guest:", "worker:"], traces.names
    assert traces.names[traces.worker]["client"] == traces.guest, traces.names


def test_the_halves_of_two_machines_come_onto_one_clock(traces, scratch):
    ran = run(BARCUDA, "trace", traces.guests, traces.hosts, "-o", scratch / "both.json")
    assert ran.status == 0, ran
    was, now = ([e for e in read(file) if "ts" in e] for file in (traces.whole, scratch / "both.json"))
    assert len(was) == len(now) and len({e["pid"] for e in now}) == 2
    doubt = float(re.search(r"to within ([0-9.]+) us", ran.err)[1]) + 1

    def key(event):
        return event["name"], event["tid"], event["ts"]
    for before, after in zip(sorted(was, key=key), sorted(now, key=key)):
        assert before["name"] == after["name"] and abs(before["ts"] - after["ts"]) <= doubt, (before, after, doubt)


def test_traces_that_have_nothing_to_do_with_each_other_stay_as_they_are(traces):
    ran = run(BARCUDA, "trace", traces.guests, traces.guests)
    assert ran.status != 0 and "its clock is left as it is" in ran.err, ran
    json.loads(ran.out)


def test_what_is_no_trace_is_refused_and_not_overwritten(scratch):
    letter = written(scratch / "letter", "a letter\n")
    ran = run(BARCUDA, "trace", letter)
    assert ran.status != 0 and "letter is not a trace" in ran.err, ran
    ran = run(*RUN, BUILD / "programs/vector_add", env={"BARCUDA_TRACE": letter})
    assert ran.status != 0 and "there is a file of that name, which is no trace" in ran.said, ran
    assert letter.read_text() == "a letter\n"
