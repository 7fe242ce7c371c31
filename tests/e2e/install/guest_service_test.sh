#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest's service has its door to itself: a second one is refused and says why; when the first has ended, in whatever way, the next
# one may begin. (What the service does, in a guest: tests/vm/service_test.cc.)
. "$(dirname "$0")/../lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: the service is root's"; exit 77; }
ls /dev/pmem* > /dev/null 2>&1 && { echo "skipped: this machine has a device that the service might take"; exit 77; }
serve=("$build/bin/barcuda" guest serve --socket "$scratch/door/guest.sock")
for end in TERM KILL; do
    "${serve[@]}" > "$scratch/$end.log" 2>&1 & first=$! bridge=$!
    await 'waiting for the host' "$scratch/$end.log"  # it has no device here, but the door
    timeout 30 "${serve[@]}" > "$scratch/second.log" 2>&1; status=$?
    [ $status = 1 ] && grep -q "another service has $scratch/door/guest.sock" "$scratch/second.log" || fail "a second service: status $status: $(cat "$scratch/second.log")"
    kill -0 $first || fail "the first service has ended: $(cat "$scratch/$end.log")"
    kill -$end $first; wait $first 2> /dev/null
done
echo passed
