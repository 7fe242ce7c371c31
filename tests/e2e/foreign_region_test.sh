#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is not our region is refused, by the library and by the bridge, with a line that says what it is and what to do.
. "$(dirname "$0")/lib.sh"
refused() { # refused WORDS: the client says why, and CUDA says that there is no device
    client "$build/programs/vector_add" > "$scratch/out" 2>&1 && fail "a program ran on $1"
    grep -q "$1" "$scratch/out" || fail "not said: '$1' but: $(cat "$scratch/out")"
}
head -c 128M /dev/urandom > "$scratch/region"
refused 'not a Barcuda region'
"$build/bin/barcuda-bridge" --region "$scratch/region" --size 128M --device "$device" 2> "$scratch/err" && fail "the bridge took a foreign file"
grep -q -- '--overwrite\|overwrite' "$scratch/err" || fail "no remedy: $(cat "$scratch/err")"
rm "$scratch/region"
refused 'no such region'
serve
kill "$bridge"; wait "$bridge"; bridge=
printf '\x00\x00' | dd of="$scratch/region" bs=1 seek=20 conv=notrunc 2> /dev/null     # row_count
refused 'its header claims 0 rows'
echo passed
