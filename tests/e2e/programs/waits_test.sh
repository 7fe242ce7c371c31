#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A wait that the GPU will not end ends all the same, and says why: of an event whose record was refused, in a context that is gone,
# and, where nothing is left to wait for, of a session that is over.
. "$(dirname "$0")/../lib.sh"
waits() { # waits WHAT: a wait that hangs is ended after a minute
    timeout 60 $run -- "$build/e2e/waits" "$1" > "$scratch/out" 2>&1
    [ $? = 124 ] && fail "$1: it waits for ever: $(cat "$scratch/out")"
}
waits event
[ "$(cat "$scratch/out")" = "$(printf 'recorded: 1\nreached: 0')" ] || fail "event: $(cat "$scratch/out")"
waits context
[ "$(cat "$scratch/out")" = "refused: 1" ] || fail "context: $(cat "$scratch/out")"

# A wait for the device asks the GPU for the streams that may be at work, not for all that there are.
BARCUDA_TRACE=$scratch/trace waits streams
[ "$(cat "$scratch/out")" = "waited: 100" ] || fail "streams: $(cat "$scratch/out")"
guest_pid=$(sed -n 's/.*"process_name","pid":\([0-9]*\),"args":{"name":"guest: waits".*/\1/p' "$scratch/trace" | head -n 1)
fences=$(grep -c "\"name\":\"write_fence\".*\"pid\":$guest_pid," "$scratch/trace")
[ "$fences" -ge 100 ] && [ "$fences" -lt 200 ] || fail "100 waits for the device wrote $fences fences"

serve
start idle "$build/e2e/waits" idle; idle=$!
kill -9 "$(sed -n 's/.*channel 0: client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")"
wait $idle
[ "$(cat "$scratch/idle.out")" = "$(printf 'running\nstream: 1\nevent: 1\nevent again: 1')" ] || fail "idle: $(cat "$scratch/idle.out")"
echo passed
