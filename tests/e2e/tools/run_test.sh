#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda run` passes the program's output, input and exit status through, says what is wrong, and leaves nothing behind.
. "$(dirname "$0")/../lib.sh"
[ "$(echo hello | $run -- cat)" = hello ] || fail "standard input and output"
$run -- sh -c 'exit 7'; [ $? = 7 ] || fail "exit status 7"
$run -- sh -c 'kill -TERM $$'; [ $? = 143 ] || fail "a program killed by SIGTERM is 143"
$run -- /no/such/program 2> "$scratch/err"; [ $? = 127 ] || fail "a program that is not there is 127"
grep -q 'cannot run /no/such/program' "$scratch/err" || fail "the message names the program: $(cat "$scratch/err")"
$run --region-size 300M -- true 2> "$scratch/err"; [ $? = 125 ] || fail "a region of 300M is refused with 125"
grep -q 'power of two' "$scratch/err" || fail "the message says why: $(cat "$scratch/err")"
$build/bin/barcuda run --device none -- true > /dev/null 2>&1 && fail "--device none is refused"
mkdir -p "$scratch/a place/bin" "$scratch/a place/lib"
cp "$build/bin/barcuda" "$scratch/a place/bin/"
cp "$build/lib/libbarcuda.so" "$scratch/a place/lib/"
"$scratch/a place/bin/barcuda" run -- true 2> "$scratch/err"; [ $? = 125 ] || fail "a path with a space is refused with 125"
grep -q 'no space' "$scratch/err" || fail "the message says what to do: $(cat "$scratch/err")"
region=$($run -- sh -c 'echo $BARCUDA_REGION')
[ -n "$region" ] && [ ! -e "$(dirname "$region")" ] || fail "the region '$region' was left behind"
region=$($run -- sh -c 'echo $BARCUDA_REGION; kill -TERM $PPID; exec sleep 60'); [ $? = 143 ] || fail "SIGTERM is the program's"
[ -n "$region" ] && [ ! -e "$(dirname "$region")" ] || fail "the region '$region' was left behind by a signal"
echo passed
