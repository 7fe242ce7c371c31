#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda doctor` in one situation after the other: it ends with 0 and "All is well." where programs can run, and else with 1, with so many
# things missing as are missing, a line that names the cause, and one that names the cure. Regions, bridges and files are real; a guest's
# device, its module and NVIDIA's driver are made of files. In a /dev/shm, a /sys and a /run of the test's own.
. "$(dirname "$0")/own_mounts.sh"
own_mounts "a /dev/shm, a /sys and a /run" "$own_shm && mount -t tmpfs tmpfs /run && for d in bus/pci/devices module class/block class/uio; do
    [ ! -d /sys/\$d ] || mount -t tmpfs tmpfs /sys/\$d || exit; done"
. "$(dirname "$0")/lib.sh"
need cc
need python3
need setpriv
unset BARCUDA_REGION CUDA_VISIBLE_DEVICES LD_PRELOAD
chmod 711 "$scratch"

# Installations, each in a folder of its own: with everything, or without some part.
installed() { # installed NAME PART...: with these of what `make` builds
    local to=$scratch/$1; shift
    mkdir -p "$to/bin" "$to/lib"
    cp "$build/bin/barcuda" "$to/bin"
    for part; do
        case $part in barcuda-bridge) ln -s "$PWD/$build/bin/$part" "$to/bin" ;; *) ln -s "$PWD/$build/lib/$part" "$to/lib" ;; esac
    done
}
library="libbarcuda.so barcuda barcuda-libraries"
installed host barcuda-bridge barcuda-soft $library
installed hardware barcuda-bridge $library
installed guest $library
installed half barcuda-bridge barcuda-soft barcuda
# Drivers. What is no library ends the loader's search: as if there were none.
driver() { # driver NAME FUNCTIONS
    mkdir "$scratch/$1" && echo "$2" | cc -shared -fPIC -x c -o "$scratch/$1/libcuda.so.1" - || fail "cc"
}
mkdir "$scratch/none" && echo none > "$scratch/none/libcuda.so.1"
driver old 'int cuDriverGetVersion(int* v) { *v = 12020; return 0; }'
driver broken 'int cuDriverGetVersion(int* v) { *v = 13000; return 0; } int cuInit(unsigned f) { return 999; }
    int cuGetErrorName(int r, const char** n) { *n = "CUDA_ERROR_UNKNOWN"; return 0; }
    void cuStreamWriteValue64_v2(void) {} void cuMemHostRegister_v2(void) {} void cuFuncGetParamInfo(void) {}'

count=0
says() { # says SITUATION MISSING CAUSE [CURE]: MISSING: how many things are, or "some"; CAUSE, CURE: of a line, and of the one behind it
    local situation=$1 missing=$2 cause=$3 cure=${4:-}
    (cd "$scratch" && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-$scratch/none} timeout 60 "${as[@]}" "$scratch/$where/bin/barcuda" doctor) > "$scratch/said" 2>&1
    local status=$?
    if [ "$missing" = 0 ]; then
        [ $status = 0 ] && grep -qx 'All is well.' "$scratch/said" && ! grep -q '^  missing' "$scratch/said"
    else
        [ $status = 1 ] && ! grep -q 'All is well' "$scratch/said" && grep -q 'thing(s) missing' "$scratch/said" &&
            { [ "$missing" = some ] || [ "$(grep -c '^  missing' "$scratch/said")" = "$missing" ]; }
    fi || fail "$situation: status $status, and not $missing missing: $(sed '/^The workers. cage/,$d' "$scratch/said")"
    grep -qE -A 1 "^  $cause" "$scratch/said" && { [ -z "$cure" ] || grep -E -A 1 "^  $cause" "$scratch/said" | grep -qE -- "-> .*$cure"; } ||
        fail "$situation: '$cause', and then '$cure', are not said: $(sed '/^The workers. cage/,$d' "$scratch/said")"
    echo "ok $((++count)) $situation"
}
region() { BARCUDA_REGION=$scratch/region says "$@"; }
as=() where=host

# The installation, and what a host's GPU is.
says "a host with the software GPU" 0 "note +bridges here use the software GPU"
where=hardware says "a host with no GPU of any kind" 1 "missing +a GPU of any kind" "install NVIDIA's driver .*barcuda-soft"
LD_LIBRARY_PATH=$scratch/old says "a driver that is too old" some "missing +a recent CUDA driver" "CUDA 12.4 or newer"
LD_LIBRARY_PATH=$scratch/broken says "a driver that does not start" 1 "missing +a GPU that works: .*CUDA_ERROR_UNKNOWN" "nvidia-smi"
LD_LIBRARY_PATH=$PWD/$build/lib/barcuda says "Barcuda's own driver in the environment" 0 "note +libcuda.so.1 here is Barcuda's own"
where=half says "the library is missing" 1 "missing +guest library: " "make install"
grep -v '^flags' /proc/cpuinfo > "$scratch/cpuinfo" && mount --bind "$scratch/cpuinfo" /proc/cpuinfo || fail "a processor without virtualization"
says "no hardware virtualization" 0 "note +no hardware virtualization"
whole=$(df --output=size /dev/shm | tail -n 1)
little() { mount -o "remount,size=$(($(df --output=used /dev/shm | tail -n 1) + (200 << 10)))k" /dev/shm || fail "a small /dev/shm"; }
enough() { mount -o "remount,size=$((whole))k" /dev/shm || fail "the usual /dev/shm"; }
little
says "no room in /dev/shm" 1 "missing +room in /dev/shm" "mount -o remount,size"
enough

# The region that the environment names, and its bridge.
region "a region that is not there" 1 "missing +a region" "there is no such region; start barcuda-bridge"
serve --no-vm --name doctor
region "a region that a bridge serves" 0 "ok +a bridge serves it"
says "a bridge, and no region named" 0 "ok +bridge doctor \\(pid $bridge\\) serves $scratch/region"
little
region "no room beside a bridge's region" 0 "note +/dev/shm has only"
enough
CUDA_VISIBLE_DEVICES=77 region "a GPU that there is not" 0 "note +CUDA_VISIBLE_DEVICES=77: programs see no GPU"
chown 65534 "$scratch/region" && region "a region of another user's" 1 "missing +a region" "belongs to user 65534, .*chown"
chown 0 "$scratch/region" && chmod 666 "$scratch/region" && region "a region that everybody may write to" 1 "missing +a region" "every user .*chmod o-w"
chmod 660 "$scratch/region"
as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
region "a region that is not this user's" some "missing +a region" "usermod -aG barcuda"
as=()
other() { # other OFFSET VALUE: of the header's 32-bit words; the one before
    python3 -c 'import struct, sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2])); print(struct.unpack("<I", f.read(4))[0]); f.seek(int(sys.argv[2])); f.write(struct.pack("<I", int(sys.argv[3])))' "$scratch/region" "$@"
}
layout=$(other 8 99)
region "a region of a newer layout" 1 "missing +a region" "layout version 99, .*upgrade Barcuda in this guest"
other 8 1 > "$scratch/out"
region "a region of an older layout" 1 "missing +a region" "layout version 1, .*upgrade barcuda-bridge on the host"
other 8 "$layout" > "$scratch/out"
kill -STOP "$bridge"
says "a bridge that stands still" 1 "missing +the bridge with pid $bridge: it does not answer" "kill -CONT"
region "the region of a bridge that stands still" 2 "missing +a bridge: the one that served this region is silent" "start barcuda-bridge"
kill -CONT "$bridge"
mv "$scratch/region" "$scratch/away"
says "a region's file that was removed" 1 "missing +the region of bridge doctor \\(pid $bridge\\): $scratch/region was removed or replaced" "start it again"
region "the same, named" 2 "missing +a region" "there is no such region"
cp "$scratch/none/libcuda.so.1" "$scratch/region"
says "a region's file that was replaced" 1 "missing +the region of bridge doctor .* was removed or replaced" "start it again"
mv "$scratch/away" "$scratch/region"
region "a region that is back" 0 "ok +a bridge serves it"
kill -TERM "$bridge"; wait "$bridge"; bridge=
region "a bridge that has ended" 1 "missing +a bridge: none serves this region" "start barcuda-bridge"
serve --no-vm --name doctor
workers=$(pgrep -P "$bridge")
kill -KILL "$bridge"; wait "$bridge" 2> /dev/null; bridge=
for worker in $workers; do while kill -0 "$worker" 2> /dev/null; do sleep 0.02; done; done # they hold its lock
region "a bridge that was killed" 1 "missing +a bridge: none serves this region" "start barcuda-bridge"
rm "$scratch/region"; yes junk | head -c 300M > "$scratch/region"
region "a file that is no region" 1 "missing +a region" "not a Barcuda region"
rm "$scratch/region"; echo junk > "$scratch/region"
region "a file that is too short" 1 "missing +a region" "not a Barcuda region"
rm "$scratch/region"; mkdir "$scratch/region"
region "a folder" 1 "missing +a region"
rmdir "$scratch/region"

# A guest.
where=guest
says "a guest's packages, and no device" 1 "missing +a device of Barcuda's: .*neither an ivshmem device nor virtio-pmem" "barcuda vm-config"
region "a container whose region is gone" 1 "missing +a region" "there is no such region"
mkdir "/sys/bus/pci/devices/0000:00:05.0"
echo 0x1af4 > "/sys/bus/pci/devices/0000:00:05.0/vendor" && echo 0x1110 > "/sys/bus/pci/devices/0000:00:05.0/device"
says "a device without its module" 2 "missing +kernel module uio_barcuda" "modprobe uio_barcuda"
mkdir /sys/module/uio_barcuda
says "a device whose module made no UIO device" 1 "missing +a region" "no region found"
# Commands of hosts say what to do there instead.
in_guest() { "$scratch/guest/bin/barcuda" "$@" > "$scratch/said" 2>&1; }
in_guest run -- true; [ $? = 125 ] && grep -q '^barcuda run: this is a guest, .*`barcuda exec PROGRAM`' "$scratch/said" || fail "run in a guest: $(cat "$scratch/said")"
for command in ps "top --once"; do in_guest $command && grep -q 'This is a guest, .*`barcuda smi`' "$scratch/said" || fail "$command in a guest: $(cat "$scratch/said")"; done
! in_guest limit && grep -q 'This is a guest' "$scratch/said" || fail "limit in a guest: $(cat "$scratch/said")"
in_guest guest && grep -q '^device *ivshmem 0000:00:05.0$' "$scratch/said" || fail "guest in a guest: $(cat "$scratch/said")"
serve --name doctor
region "a guest with all that it needs" 0 "ok +kernel module uio_barcuda is loaded"
kill -TERM "$bridge"; wait "$bridge"; bridge=
region "a guest whose bridge has ended" 1 "missing +a bridge: none serves this region" "on the host"
rm -r /sys/bus/pci/devices/0000:00:05.0 /sys/module/uio_barcuda
mkdir -p /run/barcuda && python3 -c 'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind("/run/barcuda/guest.sock")'
says "a guest's service that has ended" 2 "missing +the guest's service: it has ended" "systemctl enable --now barcuda-guest"
echo "passed: $count situations"
