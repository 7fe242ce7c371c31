#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program with all devices that there are: waits, copies and resets are those of the device that is meant. The software GPU shows four for it.
. "$(dirname "$0")/../lib.sh"
[ "$device" = soft ] && export BARCUDA_SOFT_DEVICES=4
info=$($run -- "$build/programs/device_info") || fail "device_info: $info"
case $info in
    "1 device,"*) [ "$device" = soft ] && fail "$info"; echo "skipped: there is one device"; exit 77 ;;
esac
timeout 300 $run -- "$build/programs/devices" > "$scratch/out" 2>&1 || { [ $? = 124 ] && echo 'it stood still'; cat "$scratch/out"; fail devices; }
grep -q PASSED "$scratch/out" || fail "devices did not say PASSED"
grep -q '^\([0-9]*\) of \1 devices$' "$scratch/out" || fail "not all devices: $(cat "$scratch/out")"
# The waiting worker has the first device ready; without one a client begins with whichever it likes.
serve --no-vm --warm 0
client timeout 300 "$build/programs/devices" 1 0 > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "devices, with no worker that waits"; }
echo passed
