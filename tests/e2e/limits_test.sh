#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a client and a guest may have: device memory by whichever call, memory of the region, clients, objects, work, text, a worker's
# own memory. Nothing is counted twice, all is back after each end, programs see the limit as the size of the card, and the limits can be
# seen and changed while programs run.
. "$(dirname "$0")/lib.sh"
need python3
quota=$build/e2e/quota bounds=$build/e2e/bounds
limit() { "$build/bin/barcuda" limit --region "$scratch/region" "$@"; }
is() { # is EXPRESSION: of what `barcuda limit --json` says, as `all`; has(USE, MIB, CLIENTS): so much, and what the driver takes for each
    limit --json > "$scratch/json" || fail "barcuda limit --json"
    python3 -c 'import json, sys; all = json.load(open(sys.argv[1])); own, slack = (int(a) << 20 for a in sys.argv[3:])
has = lambda use, mib, clients=1: abs(use - (mib << 20) - clients * own) <= slack; sys.exit(0 if eval(sys.argv[2]) else 1)' "$scratch/json" "$1" $own $slack
}
near() { [ $(($1 - $2)) -le $slack ] && [ $(($2 - $1)) -le $slack ]; }
soon() { # the same, after a while
    for _ in $(seq 100); do is "$1" && return; sleep 0.02; done
    fail "never so: $1: $(cat "$scratch/json")"
}
refused() { # refused TEXT WORDS...
    local text=$1; shift
    ! limit "$@" > "$scratch/out" 2>&1 || fail "limit $* was not refused"
    grep -qF -- "$text" "$scratch/out" || fail "limit $*: $(cat "$scratch/out")"
}
stop() { kill "$bridge" && wait "$bridge"; }
hold() { # hold NAME MIB: in the background, as $!; a line into $scratch/NAME.in makes it ask for more
    rm -f "$scratch/$1.in" "$scratch/$1.out" && mkfifo "$scratch/$1.in"
    "${guest[@]}" "$quota" hold "$2" < "$scratch/$1.in" > "$scratch/$1.out" 2>&1 &
}
take() { # take MIB: a client gets so many
    local got; got=$(client "$quota" take) && near "$got" "$1" || fail "a client got $got MiB instead of $1: ${*:2}"
}

# What the tests give comes on top of what the driver has. It takes more as it needs it, in pieces of its own.
measure_own
slack=0; [ "$device" = soft ] || slack=28
card=$((96 + own))
docs/limits.py --build "$build" --check || fail "docs/limits.md"

check_ways() { # check_ways ARGUMENT...
    client "$quota" ways "$@" > "$scratch/out" 2>&1 || fail "ways $*: $(cat "$scratch/out")"
    for way in module library; do  # NVIDIA's driver keeps the memory of unloaded code, which goes on counting: a process for each
        client "$quota" way $way "$@" >> "$scratch/out" 2>&1 || fail "way $way $*: $(cat "$scratch/out")"
    done
    cat "$scratch/out"
    local ways=0 least
    while IFS=: read -r way both; do
        read -r first second <<< "$both"
        case $device,$way in
            cuda,module | cuda,library) ;;
            *) near "$first" "$second" || fail "$way: $first MiB at first and $second MiB then" ;;
        esac
        least=$((92 - slack))
        case $way in mipmaps) least=$((76 - slack)) ;; esac  # of two levels, which do not fill it
        case $device,$way in  # a driver gives each graph, and each image of code, more than it wants
            cuda,"graph node" | cuda,captured) least=8 ;;
            cuda,module | cuda,library) least=0 ;;  # the first image costs more than all of this
        esac
        [ "$first" -le $((96 + slack)) ] && [ "$first" -ge "$least" ] || fail "$way: $first MiB of 96"
        ways=$((ways + 1))
    done < <(grep : "$scratch/out")
    [ $ways = 13 ] && grep -qx PASSED "$scratch/out" || fail "$ways ways"
}
export BARCUDA_SOFT_DEVICES=2
echo "client-device-memory = ${card}M" > "$scratch/bridge.conf"
serve --no-vm --config "$scratch/bridge.conf"
for which in '' last; do
    client "$quota" facts $which > "$scratch/out" 2>&1 && grep -q "total $card size $card" "$scratch/out" && near "$(cut -d ' ' -f 2 "$scratch/out")" 96 || fail "facts: $(cat "$scratch/out")"
    check_ways $which
done
if [ "$device" = soft ]; then
    env BARCUDA_REGION="$scratch/region" "$build/bin/barcuda" smi --json > "$scratch/out" || fail "barcuda smi"
    grep -q "\"total\": $((card << 20))" "$scratch/out" || fail "NVML shows another size: $(cat "$scratch/out")"
fi
stop
unset BARCUDA_SOFT_DEVICES
echo "a client's device memory"

serve --no-vm --client-device-memory ${card}M --guest-device-memory $((160 + 2 * own))M
hold first 80; first=$!
exec 8> "$scratch/first.in"
await running "$scratch/first.out"
take 80 "a second client, beside 80 MiB of 160"
soon 'has(all["guest"]["device-memory"]["limit"], 160, 2) and has(all["guest"]["device-memory"]["use"], 80)'
client "$quota" facts > "$scratch/out" && grep -q " total $card " "$scratch/out" && near "$(cut -d ' ' -f 2 "$scratch/out")" 80 || fail "what is free beside 80 MiB: $(cat "$scratch/out")"
kill -9 $first; wait $first 2> /dev/null
await "channel 0: reclaimed" "$scratch/log"
for _ in 1 2; do take 96 "after the first one's end"; done
stop
echo "a guest's"

# A bridge without limits, which gets some: what programs have they keep.
serve --no-vm
is 'all["guest"]["device-memory"]["limit"] is None and not all["clients"]' || fail "a new bridge: $(cat "$scratch/json")"
hold first 80; first=$!
exec 8> "$scratch/first.in"
await running "$scratch/first.out"
[ "$device" != soft ] || soon 'all["clients"][0]["limits"]["device-memory"]["use"] == 80 << 20'  # nobody asks NVML without a limit
is "all['clients'][0]['pid'] == $first" || fail "the client's pid is not $first: $(cat "$scratch/json")"
limit guest-device-memory=$((100 + 2 * own))M || fail "a guest's limit"
await "limits: guest-device-memory none -> .* (user $(id -u), pid [0-9]*)$" "$scratch/log"
soon 'has(all["guest"]["device-memory"]["use"], 80)'  # the driver's own too, which nobody has asked for before
take 20 "a second client, beside 80 MiB of 100"
client "$quota" facts > "$scratch/out" && grep -q "total $((100 + 2 * own)) size $((100 + 2 * own))" "$scratch/out" || fail "what a client sees of the new limit: $(cat "$scratch/out")"
refused "one after the other" guest-device-memory=none client-device-memory=40M
limit guest-device-memory=none && limit client-device-memory=$((40 + own))M || fail "each client's limit"
echo >&8; await "no more" "$scratch/first.out"
take 40 "another client, with 40 MiB"
limit --client $first device-memory=$((200 + own))M || fail "one client's limit"
await "limits: channel 0: device-memory .* -> .* (user $(id -u), pid [0-9]*)$" "$scratch/log"
echo >&8; await "^more" "$scratch/first.out"
take 40 "the other clients' limit"
limit | grep -q "client $first (channel 0) .*device-memory .*$((200 + own))M \*" || fail "the table: $(limit)"
kill -9 $first; wait $first 2> /dev/null
await "channel 0: reclaimed" "$scratch/log"
soon 'all["guest"]["device-memory"]["use"] == 0'  # the other clients' channels may be reclaimed later
refused "there is no such limit" client-memory=1G
refused "NAME=VALUE" client-device-memory
refused "negative" client-device-memory=-1
refused "there is no such client" --client 1 device-memory=1G
for value in abc 5G=3 1e30 nan; do refused "client-device-memory=$value: a number is expected" client-device-memory=$value; done
for name in client-objects guest-channels weight; do refused "$name=abc: a number is expected" $name=abc; done
for value in 16E 99999999999999999999; do refused "client-device-memory=$value: it is too large" client-device-memory=$value; done
for name in guest-channels client-device-memory weight; do refused "$name=0: 0 is not taken" $name=0; done
limit client-worker-memory=1.5G && is 'all["each_client"]["worker-memory"] == 3 << 29' && limit client-worker-memory=none || fail "a limit of 1.5G: $(cat "$scratch/json")"
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    chmod 711 "$scratch"
    for words in "" client-device-memory=1G; do
        ! setpriv --reuid=65534 --regid=65534 --clear-groups "$build/bin/barcuda" limit --region "$scratch/region" $words > "$scratch/out" 2>&1 || fail "another user may"
        grep -q "only" "$scratch/out" || fail "another user is told $(cat "$scratch/out")"
    done
    is 'has(all["each_client"]["device-memory"], 40)' || fail "another user has changed it"
fi
stop
refused "no bridge serves this region"
echo "as programs run"

# A part of the GPU's time: programs that run take turns as soon as their guest has a weight, and none when it has lost it. Who takes turns
# writes into the book.
serve --no-vm
is 'all["time"] == {"weight": None, "priority": None}' || fail "the time of a bridge without a weight: $(cat "$scratch/json")"
refused "take no turns" weight=300
stop
serve --no-vm --turns "$scratch/turns"
start one "$build/e2e/endless"; one=$!
rests() { cp "$scratch/turns" "$scratch/before" && sleep 0.3 && cmp -s "$scratch/turns" "$scratch/before"; }
rests || fail "turns without a weight"
limit weight=300 guest-channels=none || fail "a weight"
await "limits: weight none, priority normal -> weight 300, priority normal (user" "$scratch/log"
is 'all["time"] == {"weight": 300, "priority": "normal"}' || fail "the weight is not told: $(cat "$scratch/json")"
for _ in $(seq 100); do rests || break; false; done || fail "no turns with a weight"
limit priority=high || fail "a priority"
is 'all["time"] == {"weight": 300, "priority": "high"}' || fail "the priority is not told: $(cat "$scratch/json")"
limit | grep -qE '^guest +priority +high$' || fail "the table: $(limit)"
limit weight=none || fail "no weight"
for _ in $(seq 100); do rests && break; done
rests || fail "turns without a weight any more"
refused "low, normal, high" priority=highest
refused "at most 10000" weight=10001
refused "one after the other" weight=1 client-objects=7
refused "there is no such limit" --client $one weight=3
limit priority=low && is 'all["time"] == {"weight": 100, "priority": "low"}' || fail "a priority alone: $(cat "$scratch/json")"
kill $one; wait $one 2> /dev/null
stop
serve --no-vm --priority high --turns "$scratch/turns"
is 'all["time"] == {"weight": 100, "priority": "high"}' || fail "a priority alone: $(cat "$scratch/json")"
stop
echo "a guest's part of the time"

serve --no-vm --client-region-memory 64M
[ "$(client "$bounds" pinned | sort -u)" = 64 ] || fail "pinned memory: $(client "$bounds" pinned 2>&1)"
stop
serve --no-vm --guest-region-memory 96M
[ "$(client "$bounds" pinned | sort -u)" = 96 ] || fail "pinned memory: $(client "$bounds" pinned 2>&1)"
soon 'all["guest"]["region-memory"] == {"limit": 96 << 20, "use": 0}'
stop
echo "memory of the region"

serve --no-vm --guest-channels 1 --client-objects 200
start one "$build/e2e/endless"; one=$!
! client "$quota" facts > "$scratch/out" 2>&1 || fail "a second client of one"
grep -q "as many clients as it may have (1)" "$scratch/out" || fail "it was told $(cat "$scratch/out")"
is 'all["guest"]["channels"] == {"limit": 1, "use": 1}' || fail "clients: $(cat "$scratch/json")"
kill $one; wait $one 2> /dev/null
await "channel 0: reclaimed" "$scratch/log"
client "$bounds" events > "$scratch/out" || fail "events: $(cat "$scratch/out")"
{ read -r first; read -r second; } < "$scratch/out"
[ "$first" = "$second" ] && [ "$first" -gt 150 ] && [ "$first" -le 200 ] || fail "events: $(cat "$scratch/out")"
stop
echo "clients and objects"

for most in 10 none; do
    serve --no-vm --client-work ${most/none/0}
    rm -f "$scratch/queue.in" && mkfifo "$scratch/queue.in"
    client "$bounds" queue 100 < "$scratch/queue.in" > "$scratch/queue.out" 2>&1 & queue=$!
    exec 9> "$scratch/queue.in"
    await running "$scratch/queue.out"
    if [ $most = 10 ]; then soon 'all["clients"][0]["limits"]["work"]["use"] == 10'
    else soon 'all["clients"][0]["limits"]["work"]["use"] > 100'; fi
    exec 9>&-
    wait $queue || fail "the rest of the work: $(cat "$scratch/queue.out")"
    stop
done
echo "work"

serve --no-vm --client-printf-text 64K
all=$(client "$bounds" print 16384 | wc -c)
[ "$all" -ge 65536 ] && [ "$all" -lt 400000 ] || fail "$all bytes of a mebibyte were printed"
grep -q "text is dropped" "$scratch/log" || fail "nothing is said of it"
limit client-printf-text=none
[ "$(client "$bounds" print 16384 | wc -c)" = 1048576 ] || fail "text is missing"
stop
serve --no-vm --guest-log-text 1 --client-log-text 1
client "$quota" facts > "$scratch/out" || fail "facts"
! grep -q "admitted\|reclaimed" "$scratch/log" || fail "lines that there is no room for"
limit guest-log-text=1M && limit client-log-text=none
client "$quota" facts > "$scratch/out" && await "lines were left out" "$scratch/log" && await "client admitted" "$scratch/log"
stop
echo "text"

serve --no-vm --client-worker-memory 200M
[ "$(client "$bounds" image)" = 2 ] || fail "a large image: $(client "$bounds" image 2>&1)"
limit client-worker-memory=none
[ "$(client "$bounds" image)" != 2 ] || fail "a large image without a limit"
stop
bridge=
echo passed
