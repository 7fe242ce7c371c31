#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No two threads of a program take two locks of ours in contrary orders, and none calls the loader under one: in the programs that use
# most of them. (lock_order.cc sees what could come together, not what does.)
. "$(dirname "$0")/../lib.sh"
need g++
need addr2line
g++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -o "$scratch/order.so" tests/e2e/programs/lock_order.cc -ldl || fail "g++"

# It sees both kinds where they are.
cat > "$scratch/wrong.cc" <<'C'
#include <dlfcn.h>
#include <mutex>
std::mutex a, b;
extern "C" void contrary() { { std::lock_guard one(a), two(b); } { std::lock_guard one(b), two(a); } }
extern "C" void loads() { std::lock_guard one(a); dlsym(RTLD_DEFAULT, "none"); }
C
g++ -std=c++20 -fPIC -shared -o "$scratch/libwrong.so" "$scratch/wrong.cc" || fail "g++"
for what in contrary loads; do
    g++ -o "$scratch/$what" -x c++ - -L"$scratch" -lwrong -Wl,-rpath,"$scratch" <<< "extern \"C\" void $what(); int main() { $what(); }" || fail "g++"
    env LD_PRELOAD="$scratch/order.so" LOCK_ORDER_LIBRARY=libwrong.so LOCK_ORDER_REPORT="$scratch/$what.seen" "$scratch/$what"
    grep -q ERROR "$scratch/$what.seen" || fail "$what was not seen: $(cat "$scratch/$what.seen")"
done

look() { # look NAME PROGRAM [ARGUMENT...]: under the library and beside the observer
    local name=$1; shift
    timeout 300 $run -- sh -c 'LD_PRELOAD="$LD_PRELOAD $0" exec "$@"' "$scratch/order.so" "$@" > "$scratch/out" 2>&1
    local status=$?
    [ $status = 77 ] && return
    [ $status = 0 ] || { cat "$scratch/out"; fail "$name beside the observer: status $status"; }
    grep -q '^saw' "$scratch/seen" || fail "$name: nothing was seen"
    if grep -q ERROR "$scratch/seen"; then
        sed 's/[^+]*+\(0x[0-9a-f]*\).*/\1/' "$scratch/seen" | grep '^0x' | sort -u | addr2line -apiCfe "$build/lib/libbarcuda.so" | sed 's/^/  /'
        fail "$name: $(cat "$scratch/seen")"
    fi
    echo "$name: $(cat "$scratch/seen")"
    rm "$scratch/seen"
}
export LOCK_ORDER_LIBRARY=lib/libbarcuda.so LOCK_ORDER_REPORT=$scratch/seen
for setting in BARCUDA_HEAP=auto BARCUDA_HEAP=always BARCUDA_THRESHOLD=0; do
    export "$setting"
    look "bystanders with $setting" "$build/programs/bystanders"
    unset "${setting%=*}"
done
for program in $(cd tests/programs && ls -- *.cu); do look "${program%.cu}" "$build/programs/${program%.cu}"; done
BARCUDA_LOG=debug look "launch_errors, logged" "$build/programs/launch_errors"
BARCUDA_TRACE=$scratch/trace look "nvtx, traced" "$build/programs/nvtx"
