#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A domain of a real libvirt's, with the element that `barcuda vm-config --libvirt` prints: its QEMU, which is no root and not the
# bridge's user, opens the region (as a device or as memory), or asks the bridge for it, and a CUDA program runs in the guest.
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
for what in qemu-system-x86_64 virsh libvirtd virtlogd; do
    command -v $what > /dev/null || { echo "skipped: $what is not installed (libvirt-daemon-system, libvirt-clients, qemu-system-x86)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: only root starts domains of qemu:///system"; exit 77; }
started=
trap 'for daemon in $started; do kill "$(cat "/run/$daemon.pid")"; done' EXIT
if ! virsh -c qemu:///system version > /dev/null 2>&1; then  # nor has this machine systemd, then
    for daemon in virtlogd libvirtd; do
        pgrep -x $daemon > /dev/null || { $daemon -d && started="$daemon $started"; }
    done
    for _ in $(seq 100); do virsh -c qemu:///system version > /dev/null 2>&1 && break; sleep 0.2; done
fi
out=$(mktemp)
for transport in ${TRANSPORTS:-plain doorbell virtio-pmem}; do
    tests/vm/run --libvirt --transport $transport --device "${DEVICE:-soft}" --region-size 1G -- "$build/programs/vector_add" > "$out" 2>&1 && grep -q PASSED "$out" ||
        { cat "$out"; rm "$out"; exit 1; }
    echo "$transport: passed"
done
rm "$out"
