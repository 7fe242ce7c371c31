#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Limits of device memory: of a client and of a VM, by whichever call. Nothing is counted twice, all is back after each
# end, and programs see the limit as the size of the card.
. "$(dirname "$0")/lib.sh"
quota=$build/e2e/quota
limit=96
serve --no-vm --client-memory ${limit}M
client "$quota" facts > "$scratch/out" 2>&1 && grep -qx "free $limit total $limit size $limit" "$scratch/out" || fail "facts: $(cat "$scratch/out")"
client "$quota" ways > "$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
cat "$scratch/out"
ways=0
while IFS=: read -r way both; do
    read -r first second <<< "$both"
    [ "$first" = "$second" ] || fail "$way: $first MiB at first and $second MiB then"
    least=$((limit - 4)); case $way in mipmaps) least=$((limit - 20)) ;; esac  # of two levels, which do not fill it
    [ "$first" -le "$limit" ] && [ "$first" -ge "$least" ] || fail "$way: $first MiB of $limit"
    ways=$((ways + 1))
done < <(grep : "$scratch/out")
[ $ways = 9 ] && grep -qx PASSED "$scratch/out" || fail "$ways ways"
kill "$bridge" && wait "$bridge"
echo "a client's"

serve --no-vm --client-memory ${limit}M --vm-memory 160M
mkfifo "$scratch/more"
"${guest[@]}" "$quota" hold 80 < "$scratch/more" > "$scratch/first.out" 2>&1 & first=$!
exec 8> "$scratch/more"
await running "$scratch/first.out"
[ "$(client "$quota" take)" = 80 ] || fail "a second client, beside 80 MiB of 160"
client "$quota" facts | grep -q "free 80 total $limit" || fail "what is free beside 80 MiB"
kill -9 $first; wait $first 2> /dev/null
await "channel 0: reclaimed" "$scratch/log"
for _ in 1 2; do [ "$(client "$quota" take)" = $limit ] || fail "after the first one's end"; done
echo passed
