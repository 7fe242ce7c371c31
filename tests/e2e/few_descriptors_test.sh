#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A bridge that may have few files open serves as many clients as that allows. Whoever comes then is told at once, with the reason;
# the log says so once for each; and when the others have gone there is room again.
. "$(dirname "$0")/lib.sh"
[ "$device" = soft ] || { echo "skipped: NVIDIA's driver needs more descriptors for itself than this test leaves"; exit 77; }
limit=34
ulimit -n $limit 2> /dev/null || { echo 'skipped: the limit cannot be set'; exit 77; }
serve
clients=()
for i in $(seq 12); do
    "${guest[@]}" "$build/e2e/endless" > "$scratch/$i.out" 2> "$scratch/$i.err" & clients+=($!)
    until grep -qs running "$scratch/$i.out" || ! kill -0 $! 2> /dev/null; do sleep 0.02; done
    grep -q running "$scratch/$i.out" || break
done
[ ${#clients[@]} -gt 1 ] || fail "nobody was served with $limit descriptors: $(cat "$scratch/1.err")"
[ ${#clients[@]} -lt 12 ] || fail "$limit descriptors were enough for all"
grep -qE 'cannot start a worker: Too many open files|could not be given its descriptors' "$scratch/$i.err" || fail "no reason was given: $(cat "$scratch/$i.err")"
kill "${clients[@]}" 2> /dev/null; wait "${clients[@]}" 2> /dev/null
until client "$build/programs/vector_add" 2> /dev/null | grep -q PASSED; do
    [ $((tries = ${tries:-0} + 1)) -lt 50 ] || fail 'nobody is served any more'
done
lines=$(grep -cE 'cannot start|could not be given' "$scratch/log")
[ "$lines" -lt 20 ] || fail "the log says $lines times that no worker can be started"
echo passed
