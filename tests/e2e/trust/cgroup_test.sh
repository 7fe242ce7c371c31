#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each worker has a control group (cgroup v2): one that takes more of the host's memory than its client may have is killed alone, and its
# client told; the group goes with the worker. In the group that the bridge was started in, as systemd delegates one to a unit;
# where this machine has none to give away, in a guest's kernel.
if [ -z "${with_driver:-}" ]; then
    . "$(dirname "$0")/../lib.sh"
    need g++
    [ "$device" = soft ] || { echo "skipped: the driver is the test's own"; exit 77; }
    # test_cage.py's driver with a stranger inside, where a guest finds it, too.
    with_driver=$(mktemp -d "$build/cgroup-test-XXXXXX")
    trap 'rm -rf "$with_driver"; finish' EXIT
    chmod 755 "$with_driver"
    mkdir -p "$with_driver/bin" "$with_driver/lib/barcuda-soft"
    cp "$build/bin/barcuda-bridge" "$with_driver/bin"
    driver=$with_driver/lib/barcuda-soft
    g++ -shared -Wl,-soname,libreal.so -o "$driver/libreal.so" -x c /dev/null || fail "g++"
    g++ -std=c++20 -O1 -fPIC -shared -I. -o "$driver/libcuda.so.1" tests/e2e/trust/mischief.cc -Wl,--no-as-needed "$driver/libreal.so" -Wl,--disable-new-dtags,-rpath,'$ORIGIN' || fail "g++"
    cp "$build/lib/barcuda-soft/libcuda.so.1" "$driver/libreal.so"
    number=$(tr '\n' ' ' < tests/e2e/trust/mischief.cc | grep -oE 'ATTEMPT\( *[0-9]+, *swell' | grep -oE '[0-9]+')
    echo 'extern "C" int cuInit(unsigned), cuDeviceGetExecAffinitySupport(int*, int, int);
        int main(int, char** argv) { int answer = -1; return cuInit(0) ? 1 : cuDeviceGetExecAffinitySupport(&answer, '"$number"', 0) ? 2 : answer; }' > "$with_driver/swells.cc"
    g++ -o "$with_driver/swells" "$with_driver/swells.cc" "$build/lib/libbarcuda.so" || fail "g++"
    groups=$(awk '$(NF - 2) == "cgroup2" || / - cgroup2 / { print $5 }' /proc/self/mountinfo | head -n 1)
    if [ "$(id -u)" = 0 ] && [ -n "$groups" ] && grep -q memory "$groups/cgroup.controllers" && mkdir "$groups/barcuda-test-$$" 2> /dev/null; then
        rmdir "$groups/barcuda-test-$$"
        with_driver=$with_driver groups=$groups "$0"
    else
        command -v qemu-system-x86_64 > /dev/null || { echo "skipped: no control groups to be had here, and no qemu-system-x86_64"; exit 77; }
        tests/vm/run --device soft --region-size 1G --memory 2G --user 0 --no-library --timeout 600 -- env BUILD="$build" with_driver="$with_driver" "tests/e2e/$(basename "$0")"
    fi
    exit
fi
. "$(dirname "$0")/../lib.sh"
[ -n "${groups:-}" ] || { groups=/sys/fs/cgroup; mount -t cgroup2 none $groups || fail "no control groups"; }
grep -q memory "$groups/cgroup.subtree_control" || echo '+memory +pids +cpu' > "$groups/cgroup.subtree_control" || fail "controllers"
unit=$groups/barcuda-test-$$
mkdir "$unit" && chown -R 65534:65534 "$unit" || fail "a group"
trap 'finish; kill ${other:-} 2> /dev/null; sleep 0.2; rmdir "$unit"/* "$unit" 2> /dev/null' EXIT
chmod 777 "$scratch"
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
guest=($nobody "${guest[@]}")
inside() { echo "$BASHPID" > "$unit/cgroup.procs" && exec $nobody "$@"; }
unit_serves() { # unit_serves OPTIONS...
    rm -f "$scratch/ready" "$scratch/region" && mkfifo "$scratch/ready"
    inside "$with_driver/bin/barcuda-bridge" --region "$scratch/region" --size 256M --device soft --no-vm --log-level info --ready-fd 9 "$@" \
        9> "$scratch/ready" 2> "$scratch/log" &
    bridge=$!
    read -r _ < "$scratch/ready" || fail "the bridge did not come up"
}
group_of() { sed -n 's/^0:://p' "/proc/$1/cgroup"; }
workers() { ls -d "$unit"/barcuda-worker-* 2> /dev/null | wc -l; }
are() { # are N: so many workers have a group, soon
    for _ in $(seq 500); do [ "$(workers)" = "$1" ] && return; sleep 0.02; done
    fail "$(workers) groups of workers, not $1: $(ls "$unit")"
}
stop() { kill "$bridge"; wait "$bridge"; bridge=; }
small="--client-worker-memory 128M --client-region-memory 64M --client-device-memory 64M"

unit_serves $small
! grep "cage lacks 'cgroup'" "$scratch/log" || fail "the bridge has no control groups"
[[ "$(group_of "$bridge")" == */barcuda-test-$$/barcuda-bridge ]] || fail "the bridge is in $(group_of "$bridge")"
are 1
start one "$build/e2e/endless"; one=$!
worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")
its=$groups$(group_of "$worker")
[[ "$its" == "$unit/barcuda-worker-$bridge-"* ]] || fail "the worker is in $its"
[ "$(cat "$its/pids.max") $(cat "$its/memory.oom.group")" = "16384 1" ] || fail "pids.max, oom.group: $(cat "$its/pids.max" "$its/memory.oom.group")"
for _ in $(seq 500); do [ "$(cat "$its/memory.max")" = max ] || break; sleep 0.02; done
most=$(cat "$its/memory.max")
[ "$most" != max ] && [ "$most" -gt $((256 << 20)) ] && [ "$most" -lt $((600 << 20)) ] || fail "memory.max is $most"
are 2
for attempt in "echo 1 > '$its/cgroup.procs'" "echo max > '$its/memory.max'" "mkdir '$unit/mine'" "rmdir '$its'"; do
    ! setpriv --reuid=65533 --regid=65533 --clear-groups sh -c "$attempt" 2> /dev/null || fail "another user may: $attempt"
done
client "$with_driver/swells" > "$scratch/out" 2>&1 && fail "the worker had 600 MiB"
for text in "$scratch/out" "$scratch/log"; do
    grep -q "the worker process was killed, for it took more of the host's memory than its client may have (worker-memory) in cuDeviceGetExecAffinitySupport" "$text" ||
        fail "not told: $(cat "$text")"
done
are 2
kill -0 $one || fail "another client has ended: $(cat "$scratch/one.err")"
client "$build/programs/vector_add" | grep -q PASSED || fail "the next client"
"$build/bin/barcuda" limit --region "$scratch/region" client-worker-memory=none || fail "barcuda limit"
[ "$(cat "$its/memory.max")" = max ] || fail "no limit any more, and memory.max is $(cat "$its/memory.max")"
kill $one; wait $one 2> /dev/null
are 1
stop
[ -z "$(find "$unit" -mindepth 1 -type d)" ] && [ -z "$(cat "$unit/cgroup.subtree_control")" ] || fail "left behind: $(find "$unit" -mindepth 1 -type d)"
echo "a worker that is too large is killed alone"

unit_serves $small --no-cage cgroup
[ "$(workers)" = 0 ] && [ "$(group_of "$bridge")" = "${unit#"$groups"}" ] || fail "groups, without the measure"
client "$with_driver/swells" > "$scratch/out" 2>&1 || fail "a worker of 600 MiB, without the measure: $(cat "$scratch/out")"
stop
echo "without the measure it is not"

# A bridge that is killed leaves groups behind, which the next one removes.
unit_serves
are 1
kill -9 "$bridge"; wait "$bridge" 2> /dev/null
for _ in $(seq 500); do grep -q 'populated 0' "$unit/cgroup.events" && break; sleep 0.02; done
echo '-memory -pids -cpu' > "$unit/cgroup.subtree_control"  # as systemd begins anew
unit_serves --warm 0
[ "$(workers)" = 0 ] || fail "groups of a bridge that was killed: $(ls "$unit")"
stop
echo "what a killed bridge leaves is removed"

# So says barcuda doctor, which leaves nothing behind. (A guest it looks at as a guest.)
if [ ! -e /sys/module/uio_barcuda ]; then
    (inside "$build/bin/barcuda" doctor) > "$scratch/doctor"
    grep -qE '^  on +on +cgroup ' "$scratch/doctor" || fail "doctor: $(cat "$scratch/doctor")"
    [ -z "$(find "$unit" -mindepth 1 -type d)" ] || fail "left behind: $(find "$unit" -mindepth 1 -type d)"
    (inside sleep 1000) & other=$!
    until grep -q . "$unit/cgroup.procs"; do sleep 0.02; done
    (inside "$build/bin/barcuda" doctor) > "$scratch/doctor"
    grep -qE '^  off +off +cgroup ' "$scratch/doctor" && grep -q 'off: cgroup: not to be had here: .*there are other processes in it' "$scratch/doctor" || fail "doctor: $(cat "$scratch/doctor")"
    [ -z "$(find "$unit" -mindepth 1 -type d)" ] || fail "left behind: $(find "$unit" -mindepth 1 -type d)"
    kill $other; wait $other 2> /dev/null
fi

# At the root of all groups processes may be beside groups.
if [ "$(group_of $$)" = / ]; then
    rm -f "$scratch/region"
    size=256M serve --no-vm
    [ "$(group_of "$bridge")" = / ] && [ "$(ls -d "$groups"/barcuda-worker-"$bridge"-* | wc -l)" = 1 ] || fail "at the root: $(ls "$groups")"
    stop
    ! ls -d "$groups"/barcuda-worker-* 2> /dev/null || fail "left behind at the root"
fi
echo passed
