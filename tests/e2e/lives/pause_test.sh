#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda pause` and `resume`: programs that are paused at random times compute what they always do; the GPU holds nothing of a paused
# client; each refusal changes nothing and names its reason; and a paused client can be listed, limited and killed.
. "$(dirname "$0")/../lib.sh"
need python3
# A card that no other test's processes share: the software GPU tells cards apart by their size.
card=$((1000 + 2 * ($$ % 400)))
export BARCUDA_SOFT_MEMORY=${card}M
pause() { "$build/bin/barcuda" pause --region "$scratch/region" "$@"; }
resume() { "$build/bin/barcuda" resume --region "$scratch/region" "$@"; }
refused() { # refused TEXT COMMAND...
    local text=$1; shift
    ! "$@" > "$scratch/why" 2>&1 || fail "$* was not refused"
    grep -qF -- "$text" "$scratch/why" || fail "$*: $(cat "$scratch/why")"
}
stop() { kill "$bridge" && wait "$bridge"; bridge=; }
# is STATE PID: of the client with this pid, as `barcuda ps` says.
is() {
    "$build/bin/barcuda" ps --json > "$scratch/json" 2> /dev/null || fail "barcuda ps"
    python3 -c 'import json, sys
rows = [c for b in json.load(open(sys.argv[1]))["bridges"] if b["region"] == sys.argv[4] for c in b["clients"]]
sys.exit(0 if [c["state"] for c in rows if c["pid"] == int(sys.argv[3])] == [sys.argv[2]] else 1)' "$scratch/json" "$1" "$2" "$scratch/region"
}
# A program that waits for a line: begin NAME MODE [MIB]; its pid is $pid. go NAME: the line; then it ends, and was right.
begin() {
    local name=$1; shift
    rm -f "$scratch/$name.in" "$scratch/$name.out" && mkfifo "$scratch/$name.in"
    "${guest[@]}" "$build/e2e/pauses" "$@" < "$scratch/$name.in" > "$scratch/$name.out" 2> "$scratch/$name.err" &
    pid=$!
    exec {line}> "$scratch/$name.in"
    lines[$name]=$line pids[$name]=$pid
    await running "$scratch/$name.out"
}
declare -A lines pids
go() {
    echo >&"${lines[$1]}"
    wait "${pids[$1]}" || fail "$1: $(cat "$scratch/$1.out" "$scratch/$1.err")"
    grep -q right "$scratch/$1.out" || fail "$1: $(cat "$scratch/$1.out")"
}

# ---- programs that are paused again and again ----------------------------------------------------------------------
serve --no-vm
paused_program() { # paused_program WHAT [--keep-memory] -- PROGRAM...
    local what=$1 options=(); shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done; shift
    "${guest[@]}" "$@" > "$scratch/program" 2>&1 &
    local program=$! times=0 refusals=0
    while kill -0 "$program" 2> /dev/null; do
        sleep "0.0$((RANDOM % 40 + 10))"
        if ! pause "${options[@]}" 2> "$scratch/why"; then  # its GPU may wait for its next command all the time
            grep -q "did not end within the time" "$scratch/why" || fail "$what: pause: $(cat "$scratch/why")"
            refusals=$((refusals + 1))
        fi
        sleep "0.0$((RANDOM % 40 + 10))"
        resume 2> "$scratch/why" || fail "$what: resume: $(cat "$scratch/why")"
        times=$((times + 1))
    done
    wait "$program" || { tail -20 "$scratch/program"; fail "$what"; }
    echo "$what: paused $times times, $refusals refusals"
}
seed=${PAUSE_SEED:-14021}
paused_program copies -- "$build/e2e/copy_model" steps=1500 seed=$seed threads=2
paused_program "copies with their memory on the GPU" --keep-memory -- "$build/e2e/copy_model" steps=1500 seed=$seed threads=2
paused_program "managed memory" -- "$build/e2e/managed_model" steps=500 seed=$seed threads=2
for program in graph_capture graph_memory kernels host_functions two_streams stream_values; do
    paused_program "$program" -- "$build/programs/$program"
done

# ---- what a paused client is ----------------------------------------------------------------------------------------
begin first hold 64; first=$pid
begin second hold 16; second=$pid
pause --client "$first" || fail "pause --client"
is away "$first" || fail "it is not away: $(cat "$scratch/json")"
is running "$second" || fail "the other client is not running"
pause --client "$first" || fail "a second pause is no error"
"$build/bin/barcuda" limit --region "$scratch/region" --client "$first" objects=100000 || fail "limit of a paused client"
"$build/bin/barcuda" metrics --clients > "$scratch/metrics" 2> /dev/null || fail "metrics"
grep -q '^barcuda_paused_seconds{[^}]*} 0\.[0-9]*[1-9]' "$scratch/metrics" || grep -q '^barcuda_paused_seconds{[^}]*} [1-9]' "$scratch/metrics" ||
    fail "no barcuda_paused_seconds: $(grep paused "$scratch/metrics")"
grep -q "pause: channel .*: pause (user" "$scratch/log" || fail "the log does not name the user that has paused"
resume --client "$first" || fail "resume"
is running "$first" || fail "it does not run"
pause --client "$first" --keep-memory || fail "pause --keep-memory"
is held "$first" || fail "it is not held"
pause || fail "pause of all"
is away "$first" || fail "a held client does not go away"
is away "$second" || fail "the second is not away"
resume || fail "resume of all"
go first; go second
echo "a paused client is listed and limited, and goes on"

# ---- no room --------------------------------------------------------------------------------------------------------
begin first hold $((card * 6 / 10)); first=$pid
pause --client "$first" || fail "pause"
begin other hold $((card * 6 / 10)); other=$pid
refused "GPU 0 has" resume --client "$first"
is away "$first" || fail "it is not away any more"
go other
await "reclaimed.*pid $other," "$scratch/log"  # its memory is free
resume --client "$first" || fail "resume, with room"
go first
echo "a return for which there is no room is refused, and succeeds later"

# ---- refusals -------------------------------------------------------------------------------------------------------
refused "no such client" pause --client 1
begin waits waits; waits=$pid
begin first hold 16; first=$pid
refused "did not end within the time" pause --client "$waits" --within 100ms
refused "did not end within the time" pause --within 100ms  # of both: then none is
is running "$waits" && is running "$first" || fail "a refused pause has paused: $(cat "$scratch/json")"
pause --client "$first" || fail "pause"
refused "did not end within the time" pause --within 100ms
is away "$first" || fail "a refused pause lets a client run that was paused before"
resume --client "$first" || fail "resume"
go waits
begin shows shows; shows=$pid
refused "other processes may open memory" pause --client "$shows"
is running "$shows" || fail "a refused pause has paused"
pause --client "$shows" --keep-memory && resume --client "$shows" || fail "a client that shows memory is not held"
go shows
"$build/bin/barcuda" limit --region "$scratch/region" guest-paused-memory=1M || fail "limit guest-paused-memory"
refused "guest-paused-memory" pause --client "$first"
"$build/bin/barcuda" limit --region "$scratch/region" guest-paused-memory=none || fail "limit guest-paused-memory=none"
pause --client "$first" && resume --client "$first" || fail "pause, without the limit"
go first
echo "each refusal is named and changes nothing"

# ---- ends -----------------------------------------------------------------------------------------------------------
for state in away held; do
    [ $state = away ] && keep= || keep=--keep-memory
    begin killed hold 16
    pause --client "$pid" $keep && is $state "$pid" || fail "it is not $state"
    kill -9 "$pid"; wait "$pid" 2> /dev/null
    await "reclaimed.*pid $pid," "$scratch/log"
    begin killed hold 16
    pause --client "$pid" $keep && is $state "$pid" || fail "it is not $state"
    kill -9 "$(python3 -c 'import json, sys
print([c["worker"] for b in json.load(open(sys.argv[1]))["bridges"] for c in b["clients"] if c["pid"] == int(sys.argv[2])][0])' "$scratch/json" "$pid")"
    echo >&"${lines[killed]}"
    ! wait "$pid" || fail "a client whose worker was killed ended well"
    grep -q "was killed" "$scratch/killed.err" || fail "it was not told: $(cat "$scratch/killed.out" "$scratch/killed.err")"
done
begin killed waits
pause --client "$pid" --within 60s & pausing=$!
until is holding "$pid"; do sleep 0.01; done
kill -9 "$pid"; wait "$pid" 2> /dev/null
await "reclaimed.*pid $pid," "$scratch/log"
wait "$pausing" || fail "a pause of a client that is gone did not end well"
begin killed hold 16
pause || fail "pause"
stop || fail "the bridge of a paused client did not end well"
echo >&"${lines[killed]}"
! wait "$pid" || fail "a client without a bridge ended well"
serve --no-vm --worker-wrapper env
begin wrapped hold 16
refused "wrapper" pause
pause --keep-memory && resume || fail "a wrapped client is not held"
go wrapped
stop || fail "the bridge did not end well"
echo "a paused client, its worker and its bridge can be ended"

# ---- outside the cage, where the driver itself looks for room as well -------------------------------------------------
BARCUDA_SOFT_SHARED=1 serve --no-vm --no-cage all
paused_program "copies, outside the cage" -- "$build/e2e/copy_model" steps=1000 seed=$seed threads=2
stop || fail "the bridge did not end well"
