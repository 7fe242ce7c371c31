#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker that somebody has taken over is in a cage: what it tries (mischief.cc, from inside the driver) is stopped by the
# measure that is there for it, and succeeds without that measure. The log says what was tried, and so is the client told.
. "$(dirname "$0")/lib.sh"
need g++
[ "$device" = soft ] || { echo "skipped: the driver is the test's own"; exit 77; }

# A driver with a stranger inside: the software GPU, under a library that answers one of its functions itself. As the software GPU
# of an installation of its own, and as NVIDIA's libcuda.so.1.
mkdir -p "$scratch/bin" "$scratch/lib/barcuda-soft" "$scratch/nvidia" "$scratch/files"
cp "$build/bin/barcuda-bridge" "$scratch/bin"
g++ -shared -Wl,-soname,libreal.so -o "$scratch/lib/barcuda-soft/libreal.so" -x c /dev/null || fail "g++"
g++ -std=c++20 -O1 -fPIC -shared -I. -o "$scratch/nvidia/libcuda.so.1" tests/e2e/mischief.cc -Wl,--no-as-needed "$scratch/lib/barcuda-soft/libreal.so" \
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
    if (r) std::printf("ended %d\n", r);
    else std::printf("%d\n", answer);
}
CC
g++ -o "$scratch/asks" "$scratch/asks.cc" "$build/lib/libbarcuda.so" || fail "g++"
export BARCUDA_TEST_FILES=$scratch/files ANOTHERS_SECRET=word
declare -A number
while read -r n name; do number[$name]=$n; done < <(tr '\n' ' ' < tests/e2e/mischief.cc | grep -oE 'ATTEMPT\( *[0-9]+, *[a-z_]+' | tr -d '(,A-Z')
[ "${#number[@]}" = 36 ] || fail "the attempts of mischief.cc: ${!number[*]}"

caged() { # caged soft|cuda [OPTIONS...]: a bridge of that installation
    [ -n "$bridge" ] && { kill "$bridge" && wait "$bridge"; } 2> /dev/null
    local kind=$1; shift
    rm -f "$scratch/ready" "$scratch/region" && mkfifo "$scratch/ready"
    LD_LIBRARY_PATH=$scratch/nvidia:$scratch/lib/barcuda-soft "$scratch/bin/barcuda-bridge" --region "$scratch/region" --size 1G --device "$kind" --no-vm \
        --log-level info --ready-fd 9 "$@" 9> "$scratch/ready" 2> "$scratch/log" < "$scratch/asks.cc" &
    bridge=$!
    read -r _ < "$scratch/ready" || fail "the bridge did not come up"
}
try() { client "$scratch/asks" "${number[$1]}" 2> "$scratch/err"; }
ends() { # ends ATTEMPT CALL: the worker ends for this call, which is said
    got=$(try "$1")
    [ "${got%% *}" = ended ] || fail "$1 was answered '$got'"
    grep -q "the worker process called $2, which its cage denies (syscalls) in cuDeviceGetExecAffinitySupport" "$scratch/log" || fail "$1: no line for $2"
    grep -q "called $2, which its cage denies" "$scratch/err" || fail "$1: the client was not told: $(cat "$scratch/err")"
}
refused() { got=$(try "$1"); case $got in 1 | 2 | 3 | 9 | 11 | 12 | 13 | 22) ;; *) fail "$1 was not refused but answered '$got'" ;; esac; } # EPERM, ENOENT, ESRCH, EBADF, EAGAIN, ENOMEM, EACCES, EINVAL
done_() { got=$(try "$1"); [ "$got" = 0 ] || fail "$1 was answered '$got' without the measure, so this shows nothing"; }

caged soft
without=$(grep -c "cage lacks '\(syscalls\|privileges\|capabilities\|dumpable\|core\|oom\)'" "$scratch/log")
[ "$without" = 0 ] || { grep 'cage lacks' "$scratch/log"; echo "skipped: this kernel, or this build, lacks a part of the cage"; exit 77; }
ends open openat
ends create openat
ends look newfstatat
ends inet socket
ends unix socket
ends signal kill
ends thread_of_another tgkill
ends trace ptrace
ends read_another process_vm_readv
ends exec execve
ends fork clone
ends executable mmap
ends make_executable mprotect
ends unshare unshare
ends setuid setuid
ends handler rt_sigaction
for what in environment input; do refused $what; done
status() { # status LINE...: what the kernel says of a worker; but its folder is root's to see, where the worker is not dumpable
    start honest "$build/e2e/endless"
    local worker; worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log" | tail -n 1)
    for space in network:net ipc:ipc mounts:mnt; do # whose they are: the worker's, if its cage has them, or the host's
        local seen; seen=$(readlink "/proc/$worker/ns/${space#*:}") || seen=hidden
        [ "$seen" = hidden ] && [ "$(id -u)" != 0 ] && continue
        local whose=own; [ "$seen" = "$(readlink "/proc/self/ns/${space#*:}")" ] && whose=host
        local lacks=own; grep -q "cage lacks '${space%:*}'" "$scratch/log" && lacks=host
        [ "$whose" = "$lacks" ] || fail "the namespace '${space%:*}' of a worker is '$whose' ($seen): $(grep 'cage lacks' "$scratch/log")"
    done
    { cat "/proc/$worker/status" "/proc/$worker/limits"; echo "OomScore: $(cat "/proc/$worker/oom_score_adj")"; echo "Folder: $(readlink "/proc/$worker/cwd" || echo hidden)"; } > "$scratch/status"
    kill $! && wait $! 2> /dev/null
    for line in "$@"; do grep -qE "^$line\$" "$scratch/status" || fail "not '$line' but: $(cat "$scratch/status")"; done
}
status 'NoNewPrivs:\s+1' 'Seccomp:\s+2' 'Max core file size\s+1\s+1\s+bytes\s*' 'OomScore: 500' 'Folder: (/|/tmp|/mnt|/run|hidden)'
[ "$(grep -cE '^Cap...:\s+0+$' "$scratch/status")" = 5 ] || fail "capabilities: $(grep Cap "$scratch/status")"
echo "software GPU: each attempt ends the worker that makes it"

# Of the region a worker has its client's part, beside another client.
region_is_shut() { # what holds with either driver
    start neighbour "$build/e2e/endless"
    local neighbour=$!
    for attempt in map_whole map_others cut_region pass_on grow grow_from_nothing; do refused $attempt; done
    ends turn_over remap_file_pages
    ! grep -q 'asks for what is not' "$scratch/log" || fail 'the mapper has not been asked yet'
    for attempt in mapper_whole mapper_others mapper_otherwise mapper_passes; do refused $attempt; done
    grep -q 'its worker asks for what is not its client.s: 0x100000 bytes of the region at 0x0' "$scratch/log" || fail 'the log does not name what was asked for'
    ends mapper_copies dup
    kill $neighbour && wait $neighbour 2> /dev/null
}
region_is_open() { # without the measure: the same descriptor is every thread's
    start neighbour "$build/e2e/endless"
    local neighbour=$!
    for attempt in map_whole map_others pass_on grow grow_from_nothing mapper_whole mapper_others mapper_otherwise mapper_passes "$@"; do done_ $attempt; done
    kill $neighbour && wait $neighbour 2> /dev/null
}
region_is_shut
ends copy_region dup
ends reopen openat
ends reopen_mapping openat
ends fetch pidfd_open
caged soft --no-cage=extents
region_is_open
ends cut_region ftruncate
ends copy_region dup
ends turn_over remap_file_pages
echo "software GPU: a worker has its client's part of the region"

# Behind the filter there is another measure for most of it.
caged soft --no-cage=syscalls
grep -q "the workers' cage lacks 'syscalls' .*switched off" "$scratch/log" || fail "no warning"
for attempt in trace read_another setuid inet; do refused $attempt; done
[ "$(id -u)" != 0 ] || grep -qE '^Seccomp:\s+2' "/proc/$bridge/status" || fail "the bridge has no filter"
for attempt in unix executable make_executable handler; do done_ $attempt; done
if grep -q "cage lacks 'files'" "$scratch/log"; then echo "no Landlock here"; else for attempt in open create; do refused $attempt; done; fi
echo "without the filter the other measures stop it"

caged soft --no-cage=all
for attempt in open create look inet unix signal thread_of_another executable make_executable handler fork environment input; do
    done_ $attempt
done
if [ "$(id -u)" = 0 ]; then for attempt in trace read_another unshare setuid; do done_ $attempt; done; fi
[ "$(try exec)" != 0 ] && grep -q 'the worker process ended with status 7' "$scratch/log" || fail "exec did not happen without the cage"
grep -qE '^Seccomp:\s+0' "/proc/$bridge/status" || fail "the bridge has a filter"
status 'NoNewPrivs:\s+0' 'Seccomp:\s+0' "Folder: $PWD" "OomScore: $(cat /proc/self/oom_score_adj)"
echo "without a cage each attempt succeeds"

if [ "$(id -u)" = 0 ]; then
    chmod 711 "$scratch"
    caged soft --worker-user nobody
    status "Uid:(\s+$(id -u nobody)){4}" "Gid:(\s+$(id -g nobody)){4}" 'NoNewPrivs:\s+1' 'Seccomp:\s+2'
    client "$build/programs/vector_add" | grep -q PASSED || fail "an honest client of another user's worker"
    # Of itself root's bridge takes one that nobody has, another one than another bridge; and may go on as a user itself.
    caged soft
    if ! grep -q "cage lacks 'user'" "$scratch/log"; then
        status 'Uid:(\s+6[1-5][0-9]{3}){4}' 'Gid:(\s+6[1-5][0-9]{3}){4}' 'Groups:\s+6[1-5][0-9]{3}\s*'
        taken=$(sed -n 's/^Uid:\s*\([0-9]*\).*/\1/p' "$scratch/status")
        mkdir "$scratch/nobodys" && chown nobody "$scratch/nobodys" && mkfifo "$scratch/second"
        "$scratch/bin/barcuda-bridge" --region "$scratch/nobodys/region" --size 1G --device soft --user nobody --log-level info --ready-fd 9 \
            9> "$scratch/second" > /dev/null 2> "$scratch/second.log" &
        second=$!
        read -r _ < "$scratch/second" || fail "--user nobody: $(cat "$scratch/second.log")"
        grep -q "cage lacks 'user'" "$scratch/second.log" || {
            grep -qE "^Uid:(\s+$(id -u nobody)){4}" "/proc/$second/status" && grep -qE '^CapPrm:\s+0+$' "/proc/$second/status" || fail "the bridge is still root's"
            worker=$(pgrep -P "$second" -f -- --worker) || fail "no worker waits"
            other=$(sed -n 's/^Uid:\s*\([0-9]*\).*/\1/p' "/proc/$worker/status")
            [ "$other" -gt 61183 ] && [ "$other" != "$taken" ] || fail "its worker is user $other, the other bridge's $taken"
        }
        kill "$second" && wait "$second" 2> /dev/null
    fi
    echo "a worker of another user"
fi

# NVIDIA's driver opens files and sockets; it starts no programs, and does nothing to other processes or to the machine.
caged cuda --doorbell "$scratch/files/bell"
done_ executable
for attempt in open create look environment input unix inet fork; do refused $attempt; done
grep -q 'the driver called socket (0x1, 0x[0-9a-f]*), which its cage does not know, and was refused: .* start its bridge with --allow-call socket, and report it' "$scratch/log" || fail "no line with the remedy"
if grep -q "cage lacks 'extents'" "$scratch/log"; then echo "no Landlock here, so all of the region"; else
    region_is_shut
    for attempt in copy_region reopen reopen_mapping; do refused $attempt; done
    ends fetch pidfd_open
fi
refused ask_doorbell
ends signal kill
ends thread_of_another tgkill
ends trace ptrace
ends read_another process_vm_readv
ends exec execve
ends unshare unshare
ends setuid setuid
ends handler rt_sigaction
status 'NoNewPrivs:\s+1' 'Seccomp:\s+2' 'Max core file size\s+1\s+1\s+bytes\s*' 'OomScore: 500' 'Folder: (/|/tmp|/mnt|/run|hidden)'
client "$build/programs/vector_add" | grep -q PASSED || fail "an honest client"
caged cuda --no-cage=mounts
if grep -q "cage lacks 'files'" "$scratch/log"; then echo "no Landlock here"; else for attempt in open create; do refused $attempt; done; fi
if ! grep -q "cage lacks 'mounts'" "$scratch/log"; then caged cuda --no-cage=files; for attempt in open create look; do refused $attempt; done; fi
caged cuda --no-cage=extents
region_is_open
ends turn_over remap_file_pages
ends cut_region ftruncate
ends copy_region dup
caged cuda --no-cage=extents,files,mounts,user,capabilities
done_ reopen
[ "$(id -u)" = 0 ] && done_ reopen_mapping
caged cuda --no-cage=all
for attempt in open create inet environment handler; do done_ $attempt; done
status 'NoNewPrivs:\s+0' 'Seccomp:\s+0'
caged cuda --no-cage=all --cage=capabilities
done_ inet
[ "$(id -u)" = 0 ] && refused setuid
echo "NVIDIA's driver: what no driver needs ends the worker"

# So says barcuda doctor.
"$build/bin/barcuda" doctor > "$scratch/doctor"
for what in core oom syscalls extents bridge; do grep -qE "^  on +on +$what " "$scratch/doctor" || fail "doctor: $(cat "$scratch/doctor")"; done
user="^  off +off +user "; [ "$(id -u)" != 0 ] || user="^  on +on +user "
grep -qE "$user" "$scratch/doctor" || fail "doctor: $(cat "$scratch/doctor")"

# What the operator allows is done.
caged cuda --allow-call=socket,fork
done_ unix
"$scratch/bin/barcuda-bridge" --region "$scratch/other" --allow-call=sockett 2> "$scratch/err" && fail "a call that there is not"
grep -q "'sockett' is no system call" "$scratch/err" || fail "not said: $(cat "$scratch/err")"

# What a driver calls that the software GPU does not is told, once, and done.
caged cuda --record-calls --no-cage=bridge,mounts,files
for attempt in open open inet; do done_ $attempt; done
[ "$(grep -c ': recorded openat /etc/passwd$' "$scratch/log")" = 2 ] || fail "two workers that each open it once"
grep -q ': recorded socket 0x2$' "$scratch/log" || fail "the socket is not recorded"
echo "recorded"

"$scratch/bin/barcuda-bridge" --region "$scratch/other" --no-cage=syscals 2> "$scratch/err" && fail "a measure that there is not"
grep -q "the cage has no 'syscals'; its measures: environment, " "$scratch/err" || fail "not said: $(cat "$scratch/err")"
echo passed
