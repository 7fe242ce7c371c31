#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real programs with their whole heap in the region of a bridge: the same results, and every extent and channel is given back
# once they have ended. (tests/heap/programs.sh without names runs more of them, if this script is given their names.)
. "$(dirname "$0")/../lib.sh"

# The bridge's books. A client that has just ended is noticed within milliseconds.
in_use() { BARCUDA_REGION="$scratch/region" "$build/bin/barcuda" doctor | sed -n 's/.*in use: \([0-9]*\) of .*, \([0-9]*\) of .*/\1 \2/p'; }
all_given_back() {
    for _ in $(seq 500); do [ "$(in_use)" = "0 0" ] && return; sleep 0.02; done
    echo "in use (channels, MiB): $(in_use)"
    return 1
}
if [ "${1:-}" = --books ]; then  # what programs.sh calls after each program
    rmdir "$scratch" && scratch=$2 && trap - EXIT && all_given_back
    exit
fi

size=4G serve
all_given_back || fail "a fresh region is not free"
# The books can tell: while a program holds a block, they say so.
client env BARCUDA_HEAP=always bash -c 'big=$(head -c 300000 /dev/zero | tr "\0" x); '"$(declare -f in_use); build=$build scratch=$scratch"'; in_use' > "$scratch/held"
read -r channels extents < "$scratch/held"
[ "$channels" -gt 0 ] && [ "$extents" -gt 0 ] || fail "a block of 300 kB in the region does not show: $(cat "$scratch/held")"
for threshold in 0 64K; do
    client env BARCUDA_HEAP=always BARCUDA_THRESHOLD=$threshold "$build/heap/stress" 2 || fail "stress, threshold $threshold"
    all_given_back || fail "stress, threshold $threshold, left something behind"
done
export BARCUDA_REGION="$scratch/region" AFTER="$0 --books $scratch"
tests/heap/programs.sh "$build/lib/libbarcuda.so" ${@:-bash perl python_data gxx make git}
