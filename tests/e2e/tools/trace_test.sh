#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A trace is one JSON document for each run; those of two machines come onto one clock, by their contents alone.
. "$(dirname "$0")/../lib.sh"
need python3
export BARCUDA_TRACE=$scratch/trace.json
for _ in 1 2; do $run -- "$build/programs/two_streams" > "$scratch/out" 2>&1 || fail "two_streams: $(cat "$scratch/out")"; done

# The worker's part, as another machine would have written it: with another clock, and with processes that have the same numbers.
python3 - "$scratch" <<'END' || fail "the trace is not one run of one program"
import json, sys

folder = sys.argv[1]
events = json.load(open(f"{folder}/trace.json"))
names = {e["pid"]: e["args"] for e in events if e["name"] == "process_name"}
assert sorted(a["name"].split()[0] for a in names.values()) == ["guest:", "worker:"], names
worker = next(pid for pid, a in names.items() if a["name"].startswith("worker:"))
guest = next(pid for pid in names if pid != worker)
assert names[worker]["client"] == guest, names
json.dump([e for e in events if e["pid"] == guest], open(f"{folder}/guest.json", "w"))
json.dump([e | {"pid": guest} | ({"ts": e["ts"] - 5e9} if "ts" in e else {}) for e in events if e["pid"] == worker], open(f"{folder}/host.json", "w"))
END
unset BARCUDA_TRACE
"$build/bin/barcuda" trace "$scratch/guest.json" "$scratch/host.json" -o "$scratch/both.json" 2> "$scratch/err" || fail "barcuda trace: $(cat "$scratch/err")"
python3 - "$scratch" <<'END' || fail "they do not stand as they happened: $(cat "$scratch/err")"
import json, re, sys

folder = sys.argv[1]
was = [e for e in json.load(open(f"{folder}/trace.json")) if "ts" in e]
now = [e for e in json.load(open(f"{folder}/both.json")) if "ts" in e]
assert len(was) == len(now) and len({e["pid"] for e in now}) == 2
doubt = float(re.search(r"to within ([0-9.]+) us", open(f"{folder}/err").read())[1]) + 1
key = lambda e: (e["name"], e["tid"], e["ts"])
for a, b in zip(sorted(was, key=key), sorted(now, key=key)):
    assert a["name"] == b["name"] and abs(a["ts"] - b["ts"]) <= doubt, (a, b, doubt)
END

# What has nothing to do with each other stays as it is, and says so; what is no trace is refused.
"$build/bin/barcuda" trace "$scratch/guest.json" "$scratch/guest.json" > "$scratch/both.json" 2> "$scratch/err" && fail "two strangers"
grep -q 'its clock is its own' "$scratch/err" && python3 -m json.tool "$scratch/both.json" > "$scratch/out" || fail "two strangers: $(cat "$scratch/err")"
echo a letter > "$scratch/letter"
"$build/bin/barcuda" trace "$scratch/letter" 2> "$scratch/err" && fail "a letter"
grep -q 'letter is no trace' "$scratch/err" || fail "a letter: $(cat "$scratch/err")"
BARCUDA_TRACE=$scratch/letter $run -- "$build/programs/vector_add" > "$scratch/out" 2>&1 && fail "a letter was overwritten"
grep -q 'there is a file of that name, which is no trace' "$scratch/out" && [ "$(cat "$scratch/letter")" = 'a letter' ] || fail "a letter: $(cat "$scratch/out")"
echo passed
