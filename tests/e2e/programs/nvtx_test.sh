#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a program says by NVTX stands in its trace, among the commands that it sent meanwhile; without a trace nothing is opened for it.
. "$(dirname "$0")/../lib.sh"
need python3
BARCUDA_TRACE="$scratch/trace.json" $run -- "$build/programs/nvtx" > "$scratch/out" 2>&1 || fail "nvtx: $(cat "$scratch/out")"
python3 - "$scratch/trace.json" <<'END' || fail "the trace is not what the program said: $(grep -v cuLaunch "$scratch/trace.json" | head -40)"
import json, sys

events = json.load(open(sys.argv[1], encoding="utf-8"))

def only(**wanted):
    found = [e for e in events if all(e.get(k) == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, found)
    return found[0]

guest = only(ph="M", name="process_name", args={"name": "guest: nvtx"})["pid"]
main = only(ph="M", name="thread_name")
assert main["args"]["name"] == "the main thread" and main["pid"] == guest, main
whole = only(ph="X", name="whole", cat="nvtx", tid=main["tid"])
inside = lambda inner, outer: outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
steps = [e for e in events if e["name"] == "step"]
assert [s["args"] for s in steps] == [{"category": "files", "payload": i} for i in range(3)], steps
assert all(s["ph"] == "X" and inside(s, whole) for s in steps), steps
launches = [e for e in events if e["pid"] == guest and e["name"] in ("cuLaunchKernel", "launch")]
assert launches and all(inside(e, whole) for e in launches), [e["name"] for e in events]
begun, ended = only(ph="b", name="across threads"), only(ph="e", name="across threads")
assert begun["id"] == ended["id"] and begun["tid"] != ended["tid"] and begun["ts"] < ended["ts"], (begun, ended)
assert only(ph="i", name="grüße 世界")["tid"] == ended["tid"]
known = only(ph="X", name="a registered string", cat="nvtx:physics")
assert known["args"] == {"category": "collisions"} and inside(known, whole), known
only(ph="i", name='a "quote", a \\, a   and a stray ?', cat="nvtx:physics")
END
$run -- sh -c 'echo "[$NVTX_INJECTION64_PATH]"' > "$scratch/out" && grep -qx '\[\]' "$scratch/out" || fail "without a trace: $(cat "$scratch/out")"
$run -- "$build/programs/nvtx" | grep -q PASSED || fail "nvtx with no trace"
# A tool of the user's own comes first.
NVTX_INJECTION64_PATH=/no/such/tool.so BARCUDA_TRACE="$scratch/other.json" $run -- "$build/programs/nvtx" | grep -q PASSED || fail "another tool"
grep -q '"cat":"nvtx' "$scratch/other.json" && fail "another tool's events are ours"
echo passed
