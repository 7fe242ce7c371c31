#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a process shows to others (cudaIpc*) is for its region alone and no longer than it lives; a handle of anybody's own making opens
# nothing, and who waits for an event of a process that has died does not wait for ever.
. "$(dirname "$0")/../lib.sh"
shows="$build/e2e/shows"
serve
start owner "$shows" own; owner=$!
await '^handles ' "$scratch/owner.out"
handles=$(sed -n 's/^handles //p' "$scratch/owner.out")
[ "$(client "$shows" open $handles)" = "memory 42 event pending" ] || fail "another process of the region: $(client "$shows" open $handles 2>&1)"
[ "$(client "$shows" open ${handles//[0-9a-f]/7})" = "memory refused event refused" ] || fail "a made-up handle"
swapped=$(echo $handles | awk '{ print $2, $1 }')
[ "$(client "$shows" open $swapped)" = "memory refused event refused" ] || fail "an event for memory: $(client "$shows" open $swapped 2>&1)"
echo "processes of a region open what they are shown"

[ "$($run -- "$shows" open $handles)" = "memory refused event refused" ] || fail "a process of another region opened it"
echo "those of another do not"

start waiter "$shows" wait $handles; waiter=$!
[ "$device" = soft ] || exit 0  # what other drivers do then is theirs
kill -9 $owner; wait $owner 2> /dev/null
wait $waiter || fail "the waiter ended with $?: $(cat "$scratch/waiter.out" "$scratch/waiter.err")"
grep -q 'memory 42' "$scratch/waiter.out" || fail "what was open is lost: $(cat "$scratch/waiter.out")"
[ "$(client "$shows" open $handles)" = "memory refused event refused" ] || fail "handles outlive their process"
echo "what is open stays, what is not cannot be opened any more"
