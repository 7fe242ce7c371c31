#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --worker-wrapper: a program of the user's runs each worker, sees it end by itself, and may take its time then. What goes wrong
# with it is said, and leaves no process behind.
. "$(dirname "$0")/../lib.sh"
log=$scratch/wrapped
# As a profiler does it: the worker is its child, and it writes a report in the end.
cat > "$scratch/wrap" <<END
#!/bin/bash
echo "begun: \$1" >> $log; shift
"\$@" & worker=\$!
echo "worker \$worker" >> $log
wait \$worker
echo "ended: \$?" >> $log
END
chmod +x "$scratch/wrap"
wrapper="$scratch/wrap 'two words'"
ended() { # ended TIMES: so many workers were wrapped, and each ended by itself
    [ "$(grep -cx 'begun: two words' "$log")" = "$1" ] && [ "$(grep -cx 'ended: 0' "$log")" = "$1" ] || fail "not $1 but: $(cat "$log")"
}

$run --worker-wrapper env -- "$build/programs/vector_add" | grep -q PASSED || fail "env as a wrapper"
$run --worker-wrapper "$wrapper" -- "$build/programs/vector_add" | grep -q PASSED || fail "the wrapper"
ended 1  # `barcuda run` has waited for the report
$run --worker-wrapper "$wrapper" -- "$build/programs/prints" > "$scratch/out" 2>&1 || fail "prints: $(cat "$scratch/out")"
$run --worker-wrapper "$wrapper" -- "$build/e2e/asserts" look > "$scratch/out" 2>&1
grep -q "Assertion .* failed" "$scratch/out" || fail "the text of an assert: $(cat "$scratch/out")"
ended 3

# A bridge of many clients: one wrapper each, and none before its client.
rm -f "$log"
serve --no-vm --worker-wrapper "$wrapper"
[ -e "$log" ] && fail "a worker waits for a client: $(cat "$log")"
for i in 1 2; do client "$build/programs/vector_add" | grep -q PASSED || fail "client $i"; done
start victim "$build/e2e/endless"
kill -9 $!; wait $! 2> /dev/null
for _ in 1 2 3; do await 'channel 0: reclaimed' "$scratch/log"; done
until [ "$(grep -c '^ended' "$log")" = 3 ]; do sleep 0.1; done
ended 3
start other "$build/e2e/endless"; other=$!
kill "$bridge" && wait "$bridge"; bridge=
wait $other
ended 4
echo "a worker ends by itself"

# Without the bridge it ends, too.
rm -f "$log"
serve --no-vm --worker-wrapper "$wrapper"
start victim "$build/e2e/endless"; victim=$!
worker=$(sed -n 's/^worker //p' "$log")
kill -KILL "$bridge"; wait "$bridge" 2> /dev/null; bridge=
wait $victim
for _ in $(seq 600); do kill -0 "$worker" 2> /dev/null || break; sleep 0.1; done
kill -0 "$worker" 2> /dev/null && { kill -9 "$worker"; fail "the worker has outlived its bridge"; }

# What goes wrong.
$run --worker-wrapper 'no-such-profiler --all' -- true 2> "$scratch/err"; [ $? = 125 ] || fail "a wrapper that is not there"
grep -q "worker-wrapper 'no-such-profiler --all': there is no such program" "$scratch/err" || fail "not said: $(cat "$scratch/err")"
wrong() { # wrong WRAPPER REGEX: the program is told, and ends
    timeout 100 $run --worker-wrapper "$1" -- "$build/programs/vector_add" > "$scratch/out" 2>&1
    status=$?
    [ $status != 0 ] && [ $status != 124 ] || fail "$1: status $status: $(cat "$scratch/out")"
    grep -q "$2" "$scratch/out" || fail "$1: not '$2' but: $(cat "$scratch/out")"
}
wrong "sh -c 'exit 3'" "the worker in its wrapper (sh -c 'exit 3') ended with status 3"
wrong "sh -c 'kill -9 \$\$'" "was killed by signal 9"
wrong "sh -c 'exec 4>&-; exec \"\$@\"' sh" "descriptors 3 to 9 are not the bridge's: its wrapper must leave them open"
echo passed
