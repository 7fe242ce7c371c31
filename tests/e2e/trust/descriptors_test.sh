#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory as a descriptor: whoever of the region has it opens the memory, nobody else does, and no token is guessed. The bridge keeps the
# driver's descriptor as long as somebody has the program's and its maker lives; who has mapped the memory keeps it.
. "$(dirname "$0")/../lib.sh"
gives="$build/e2e/gives"
# How many descriptors of memory the bridge has; what other drivers' look like is theirs.
kept() { [ "$device" = soft ] || { echo "$1"; return; }; ls -l "/proc/$bridge/fd" | grep -c barcuda-device-memory; }
keeps() { [ "$(kept "$1")" = "$1" ] || fail "$2: the bridge has $(kept "$1") descriptors, not $1"; }
# A program in the background that can be told to go on: its input is on descriptor $1.
talk_to() { # talk_to NUMBER NAME PROGRAM...
    mkfifo "$scratch/$2.in"
    eval "exec $1<> '$scratch/$2.in'"
    start "$2" sh -c 'in=$1; shift; exec "$@" < "$in"' sh "$scratch/$2.in" "${@:3}"
}
serve
talk_to 5 owner "$gives" give "$scratch"; owner=$!
keeps 1 "memory that only its descriptor holds"
[ "$(client "$gives" take "$scratch")" = "memory 42" ] || fail "another process of the region: $(client "$gives" take "$scratch" 2>&1)"
client "$gives" forge "$scratch" > "$scratch/forge.out" 2>&1 || fail "forged tokens: $(cat "$scratch/forge.out")"
[ "$(cat "$scratch/forge.out")" = "the same 1
forged ones refused" ] || fail "forged tokens: $(cat "$scratch/forge.out")"
$run -- "$gives" take "$scratch" > "$scratch/other.out" 2>&1
grep -q '^memory refused' "$scratch/other.out" || fail "a process of another region opened it: $(cat "$scratch/other.out")"
echo "who has the descriptor opens the memory, in its region alone"

talk_to 6 holder "$gives" hold "$scratch"; holder=$!
echo >&5; await 'let go, 1' "$scratch/owner.out"
keeps 1 "a descriptor that another process has"
echo >&6; await '^descriptor' "$scratch/holder.out"
[ "$(grep -v running "$scratch/holder.out")" = "memory 42
descriptor 1" ] || fail "what only another process has the descriptor of: $(cat "$scratch/holder.out")"
kill -9 $holder; wait $holder 2> /dev/null
echo >&5; await 'let go, 2' "$scratch/owner.out"
keeps 0 "a descriptor that is closed everywhere"
kill -9 $owner; wait $owner 2> /dev/null
echo "the descriptor keeps the memory until it is closed everywhere"

talk_to 7 maker "$gives" give "$scratch/2"; maker=$!
talk_to 8 keeper "$gives" hold "$scratch/2"
keeps 1 "a second owner"
before=$(grep -c reclaimed "$scratch/log")
kill -9 $maker; wait $maker 2> /dev/null
for _ in $(seq 3000); do [ "$(grep -c reclaimed "$scratch/log")" -gt "$before" ] && break; sleep 0.02; done
keeps 0 "a process that was killed"
echo >&8; await '^descriptor' "$scratch/keeper.out"
grep -q '^memory 42' "$scratch/keeper.out" || fail "what was mapped is lost: $(cat "$scratch/keeper.out")"
grep -q '^descriptor refused' "$scratch/keeper.out" || fail "a descriptor outlives its process: $(cat "$scratch/keeper.out")"
echo "what is mapped stays, the descriptor of a process that was killed leads nowhere"
