#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda cdi`: podman gives containers a bridge's GPUs by a device's name alone. The container's root is empty but for this system's
# programs and libraries. In an /etc, a /dev/shm and a folder of cgroups of the test's own.
. "$(dirname "$0")/../own_mounts.sh"
command -v podman > /dev/null || { echo "skipped: podman is not installed"; exit 77; }
own_mounts "an /etc and cgroups" "$own_shm_and_etc &&
    { [ \"\$(stat -fc %T /sys/fs/cgroup)\" = cgroup2fs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup; }"
. "$(dirname "$0")/../lib.sh"
need python3
serve --no-vm
mkdir -p /etc/cdi "$scratch/root"/{usr,lib,lib64,bin,proc,sys,dev,tmp,run,etc}
"$build/bin/barcuda" cdi vm1 --region "$scratch/region" > /etc/cdi/barcuda.json || fail "barcuda cdi"
# Podman raises limits for root's containers, which a root without CAP_SYS_RESOURCE may not.
cat > "$scratch/crun" << 'P'
#!/usr/bin/python3
import json, os, sys
if "--bundle" in sys.argv:
    config = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    container = json.load(open(config))
    container["process"].pop("rlimits", None)
    json.dump(container, open(config, "w"))
os.execv("/usr/bin/crun", ["crun", *sys.argv[1:]])
P
chmod +x "$scratch/crun"
[ -x /usr/bin/crun ] || { echo "skipped: crun is not installed"; exit 77; }
contained() { # contained [--device NAME] PROGRAM...
    local device=()
    [ "$1" = --device ] && device=("$1" "$2") && shift 2
    timeout 60 podman --runtime "$scratch/crun" --cgroup-manager cgroupfs --root "$scratch/podman" --runroot "$scratch/run" --storage-driver vfs run --rm \
        --network none --no-hosts --cgroups disabled "${device[@]}" -v "$PWD/$build/programs:/programs:ro" -v /usr:/usr:ro -v /lib:/lib:ro -v /lib64:/lib64:ro \
        -v /bin:/bin:ro --rootfs "$scratch/root" "$@"
}
contained true 2> "$scratch/out" || { echo "skipped: podman runs no container here: $(tail -n 1 "$scratch/out")"; exit 77; }
! contained /programs/vector_add > "$scratch/out" 2>&1 || fail "a container without the device has a GPU"
contained --device barcuda.dev/gpu=vm1 /programs/vector_add > "$scratch/out" 2>&1 && grep -q '^PASSED' "$scratch/out" || fail "vector_add: $(cat "$scratch/out")"
await 'channel 0: client admitted' "$scratch/log"
for i in 1 2 3; do contained --device barcuda.dev/gpu=vm1 /programs/host_memory > "$scratch/out.$i" 2>&1 & done
wait -n; wait -n; wait -n
for i in 1 2 3; do grep -q '^PASSED' "$scratch/out.$i" || fail "of three: $(cat "$scratch/out.$i")"; done
contained --device barcuda.dev/gpu=vm1 /usr/bin/python3 -c '
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0' > "$scratch/out" 2>&1 || fail "Python: $(cat "$scratch/out")"
! "$build/bin/barcuda" cdi > "$scratch/out" 2>&1 || fail "there is a guest's device here"
grep -q 'barcuda cdi vm1' "$scratch/out" || fail "what to do is not said: $(cat "$scratch/out")"
echo passed
