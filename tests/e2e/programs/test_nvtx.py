# SPDX-License-Identifier: Apache-2.0
"""What a program says by NVTX stands in its trace, among the commands that it sent meanwhile; without a trace nothing is opened for it."""
import json

import pytest

from e2e.flat import BUILD, RUN, run, succeed

NVTX = BUILD / "programs/nvtx"


def within(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


class Trace:
    def __init__(self, file):
        self.events = json.loads(file.read_text(encoding="utf-8"))
        self.guest = self.only(ph="M", name="process_name", args={"name": "guest: nvtx"})["pid"]
        self.main = self.only(ph="M", name="thread_name")
        self.whole = self.only(ph="X", name="whole", cat="nvtx", tid=self.main["tid"])

    def only(self, **wanted):
        found = [e for e in self.events if all(e.get(key) == value for key, value in wanted.items())]
        assert len(found) == 1, (wanted, found)
        return found[0]


@pytest.fixture(scope="module")
def trace(shared):
    succeed(*RUN, NVTX, env={"BARCUDA_TRACE": shared / "trace.json"})
    return Trace(shared / "trace.json")


def test_ranges_stand_in_the_trace_with_what_the_program_says_of_them(trace):
    steps = [e for e in trace.events if e["name"] == "step"]
    assert [s["args"] for s in steps] == [{"category": "files", "payload": i} for i in range(3)], steps
    assert all(s["ph"] == "X" and within(s, trace.whole) for s in steps), steps
    known = trace.only(ph="X", name="a registered string", cat="nvtx:physics")
    assert known["args"] == {"category": "collisions"} and within(known, trace.whole), known


def test_the_main_thread_has_its_name(trace):
    assert trace.main["args"]["name"] == "the main thread" and trace.main["pid"] == trace.guest, trace.main


def test_commands_stand_inside_the_range_in_which_they_were_sent(trace):
    launches = [e for e in trace.events if e["pid"] == trace.guest and e["name"] in ("cuLaunchKernel", "launch")]
    assert launches and all(within(e, trace.whole) for e in launches), [e["name"] for e in trace.events]


def test_a_range_begins_in_one_thread_and_ends_in_another(trace):
    begun, ended = trace.only(ph="b", name="across threads"), trace.only(ph="e", name="across threads")
    assert begun["id"] == ended["id"] and begun["tid"] != ended["tid"] and begun["ts"] < ended["ts"], (begun, ended)
    assert trace.only(ph="i", name="grüße 世界")["tid"] == ended["tid"]


def test_marks_with_signs_that_json_does_not_take_stand_in_the_trace(trace):
    trace.only(ph="i", name='a "quote", a \\, a   and a stray ?', cat="nvtx:physics")


def test_without_a_trace_nothing_is_opened():
    assert succeed(*RUN, "sh", "-c", 'echo "[$NVTX_INJECTION64_PATH]"') == "[]\n"
    ran = run(*RUN, NVTX)
    assert "PASSED" in ran.out, ran


def test_a_tool_of_the_users_own_comes_first(scratch):
    ran = run(*RUN, NVTX, env={"NVTX_INJECTION64_PATH": "/no/such/tool.so", "BARCUDA_TRACE": scratch / "other.json"})
    assert "PASSED" in ran.out, ran
    assert '"cat":"nvtx' not in (scratch / "other.json").read_text(), "another tool's events are ours"
