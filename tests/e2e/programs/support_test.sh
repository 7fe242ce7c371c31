#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda support` names the functions that cross to the host, in words and in JSON, each of which the guest library has; and
# docs/support.md says of every function of CUDA what is so.
. "$(dirname "$0")/../lib.sh"
need python3
"$build/bin/barcuda" support > "$scratch/text" && "$build/bin/barcuda" support --json > "$scratch/json" || fail "barcuda support"
grep -qx 'driver *call *cuModuleGetFunction' "$scratch/text" || fail "no row of the driver's: $(head -3 "$scratch/text")"
grep -qx 'driver *post *cuMemsetD8Async' "$scratch/text" || fail "no posted row: $(grep -c post "$scratch/text") others"
"$build/bin/barcuda" support --help | grep -q -- --json || fail "--help does not name --json"
python3 - "$scratch/text" "$scratch/json" <<'PY' || fail "the two say different things"
import json, sys
text = [line.split() for line in open(sys.argv[1])]
rows = json.load(open(sys.argv[2]))
assert text == [[row["library"], row["how"], row["name"]] for row in rows] and len(rows) > 300
PY
need nm
nm -D --defined-only "$build/lib/libbarcuda.so" | sed 's/.* //; s/@.*//' | sort > "$scratch/exports"
awk '$1 != "Barcuda" { print $3 }' "$scratch/text" | sort | comm -23 - "$scratch/exports" > "$scratch/missing"
[ ! -s "$scratch/missing" ] || fail "crosses, but the guest library does not export it: $(head -5 "$scratch/missing")"
echo "barcuda support says what crosses"

need objdump
header=${CUDA_HOME:-/usr/local/cuda}/include/cuda.h
grep -q '^#define CUDA_VERSION 13000' "$header" 2> /dev/null || { echo "skipped: docs/support.md is about CUDA 13.0, and $header is not of it"; exit 77; }
docs/support.py --build "$build" --check || fail "docs/support.md"
echo "docs/support.md says what is so"
