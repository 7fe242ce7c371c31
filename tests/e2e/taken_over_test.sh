#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker that an attacker has taken over (taken_over.cc, from inside the driver) does what it can to its bridge. It ends for that, with a line
# in the log; the bridge goes on serving others.
. "$(dirname "$0")/lib.sh"
need g++
[ "$device" = soft ] || { echo "skipped: the driver is the test's own"; exit 77; }

# As in cage_test.sh: the software GPU of an installation of its own, under a library that answers one of its functions itself; and the same
# as NVIDIA's libcuda.so.1.
mkdir -p "$scratch/bin" "$scratch/lib/barcuda-soft" "$scratch/nvidia"
cp "$build/bin/barcuda-bridge" "$scratch/bin"
g++ -shared -Wl,-soname,libreal.so -o "$scratch/lib/barcuda-soft/libreal.so" -x c /dev/null || fail "g++"
g++ -std=c++20 -O1 -fPIC -shared -I. -o "$scratch/nvidia/libcuda.so.1" tests/e2e/taken_over.cc -Wl,--no-as-needed "$scratch/lib/barcuda-soft/libreal.so" \
    -Wl,--disable-new-dtags,-rpath,"$scratch/lib/barcuda-soft" || fail "g++"
cp "$build/lib/barcuda-soft/libcuda.so.1" "$scratch/lib/barcuda-soft/libreal.so"
cp "$scratch/nvidia/libcuda.so.1" "$scratch/lib/barcuda-soft/libcuda.so.1"
cat > "$scratch/asks.cc" <<'CC'
#include <cstdio>
#include <cstdlib>
extern "C" int cuInit(unsigned), cuDeviceGetExecAffinitySupport(int*, int, int);
int main(int, char** argv) {
    int answer = -1;
    const int r = cuInit(0) ? -1 : cuDeviceGetExecAffinitySupport(&answer, std::atoi(argv[1]), 0);
    std::printf(r ? "ended\n" : "%d\n", answer);
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
}
CC
g++ -o "$scratch/asks" "$scratch/asks.cc" "$build/lib/libbarcuda.so" || fail "g++"
declare -A number
while read -r n name; do number[$name]=$n; done < <(grep -oE 'ATTEMPT\([0-9]+, [a-z_]+' tests/e2e/taken_over.cc | tr -d '(,A-Z')
[ "${#number[@]}" = 6 ] || fail "the attempts of taken_over.cc: ${!number[*]}"

taken_over() { # taken_over soft|cuda [OPTIONS...]: a bridge of that installation
    [ -n "$bridge" ] && { kill "$bridge" && wait "$bridge"; } 2> /dev/null
    local kind=$1; shift
    rm -f "$scratch/ready" "$scratch/region" && mkfifo "$scratch/ready"
    LD_LIBRARY_PATH=$scratch/nvidia:$scratch/lib/barcuda-soft "$scratch/bin/barcuda-bridge" --region "$scratch/region" --size 1G --device "$kind" --no-vm \
        --log-level info --ready-fd 9 "$@" 9> "$scratch/ready" 2> "$scratch/log" &
    bridge=$!
    read -r _ < "$scratch/ready" || fail "the bridge did not come up"
}
innocent() { timeout 60 "${guest[@]}" "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "an innocent client after $1: $(cat "$scratch/out")"; }
ends() { # ends ATTEMPT LINE: twice, each time the worker ends for it
    for count in 1 2; do
        rm -f "$scratch/in" && mkfifo "$scratch/in"
        "${guest[@]}" "$scratch/asks" "${number[$1]}" < "$scratch/in" > "$scratch/out" 2>&1 & asks=$!
        exec 7> "$scratch/in"  # it stays until this is closed
        for _ in $(seq 1500); do [ "$(grep -c -- "$2" "$scratch/log")" -ge $count ] && break; sleep 0.02; done
        [ "$(grep -c -- "$2" "$scratch/log")" -ge $count ] || fail "$1: the worker did not end for it: $(cat "$scratch/out")"
        innocent "$1"
        exec 7>&-
        wait $asks
    done
}

answers() { # answers ATTEMPT: what it comes to
    timeout 60 "${guest[@]}" "$scratch/asks" "${number[$1]}" < /dev/null > "$scratch/out" 2>&1 || fail "$1: $(cat "$scratch/out")"
    cat "$scratch/out"
}
log_is_the_bridges() {
    local before size; size=$(stat -c %s "$scratch/log") before=$(head -c "$size" "$scratch/log")
    case $(answers cut_log) in 9 | 22 | 29) ;; *) fail "cut_log was answered $(cat "$scratch/out")" ;; esac # EBADF, EINVAL, ESPIPE
    [ "$(answers forge_log)" = 0 ] || fail "forge_log was answered $(cat "$scratch/out")"
    await 'error barcuda-bridge region: channel [0-9]*: worker [0-9]*: all is lost$' "$scratch/log"
    await 'barcuda-bridge region: channel [0-9]*: worker [0-9]*: forged barcuda-bridge: all is well.x1b.2J.x0dforged$' "$scratch/log"
    await 'info barcuda-bridge region: channel [0-9]*: worker [0-9]*: forged x*\.\.\.$' "$scratch/log"
    [ "$(answers flood_log)" = 0 ] || fail "flood_log was answered $(cat "$scratch/out")"
    await 'channel [0-9]*: worker [0-9]*: [0-9]* lines were left out (log-text)$' "$scratch/log"
    innocent flood_log
    [ "$(stat -c %s "$scratch/log")" -lt 300000 ] || fail "a megabyte of a worker's in the log: $(stat -c %s "$scratch/log")"
    ! grep -q '^forged' "$scratch/log" || fail "a line that looks like the bridge's"
    [ "$(head -c "$size" "$scratch/log")" = "$before" ] || fail "the log has lost its beginning"
}

for kind in soft cuda; do
    taken_over $kind
    log_is_the_bridges
    echo "$kind: the log is the bridge's"
    if grep -q "cage lacks 'extents'" "$scratch/log"; then echo "$kind: no mapper here"; continue; fi
    ends second_mapper "the worker tells of a second mapper"
    ends own_listener "the worker tells of a second mapper"
    ends end_mapper "the worker has lost the thread that maps its client's memory"
    taken_over $kind --no-cage=extents
    ends second_mapper "the worker tells of a mapper, and its cage has none"
    echo "$kind: only the first mapper is believed"
done
kill "$bridge"; wait "$bridge" || fail "the bridge ended with $?"
bridge=
echo passed
