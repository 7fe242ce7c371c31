#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every program of tests/programs passes in a QEMU guest: its arrays lie in the BAR, its kernels run on the host's device. One that
# has nothing to show on this device says so and ends with 77. PROGRAMS names some of them; TRANSPORT is tests/vm/run's.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
out=$(mktemp) log=$(mktemp)
trap 'rm -f "$out" "$log"' EXIT
programs=${PROGRAMS:-$(basename -s .cu tests/programs/*.cu)}
tests/vm/run --device "${DEVICE:-soft}" -- bash -c '
    said=$(mktemp)
    for program in '"$(echo $programs)"'; do
        '"$build"'/programs/$program > "$said" 2>&1
        status=$?
        [ $status = 77 ] && { echo "$program: passed over, $(grep -m 1 skipped "$said")"; continue; }
        [ $status = 0 ] && grep -q PASSED "$said" && echo "$program: passed" || { cat "$said"; echo "$program: FAILED"; exit 1; }
    done' > "$out" 2> "$log"
status=$?
cat "$log" "$out"  # the log may be long: what the program said comes last
[ $status = 0 ] && [ "$(grep -c ': passed' "$out")" = "$(wc -w <<< "$programs")" ]
