#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each folder of the source is a room. A file may include what its room has and what rooms above it in this list have: so every arrow
# between rooms points one way, and there is no circle.
cd "$(dirname "$0")/../.." && exec python3 - <<'E2'
import re
import sys
from pathlib import Path

# From what stands below everything to what stands on top.
ROOMS = """
base/os base base/cli
shm-device shm-device/queue shm-device/kinds shm-device/cuda shm-device/rows shm-device/doors shm-device/region
soft-gpu soft-gpu/ptx soft-gpu/compiler soft-gpu/driver soft-gpu/driver/calls soft-gpu/blas soft-gpu/random soft-gpu/nvml
guest-allocator/glibc guest-allocator/pmem guest-allocator/commands guest-allocator/heap guest-allocator/client guest-allocator/driver
guest-allocator/runtime guest-allocator/libraries guest-allocator/nvml
host-bridge/between host-bridge/cage host-bridge/monitor host-bridge/watch
host-bridge/keeper
host-bridge/worker/quota host-bridge/worker/memory host-bridge/worker/session host-bridge/worker/bodies host-bridge/worker
host-bridge/bridge host-bridge/cli host-bridge/exporter host-bridge/kubernetes host-bridge
""".split()
# Folders that are a part of the room above them: state and mechanism of one thing.
PARTS = ("guest-allocator/heap", "guest-allocator/driver")
SIDES = {"soft-gpu": "base shm-device", "guest-allocator": "base shm-device", "host-bridge": "base shm-device guest-allocator/commands", "shm-device": "base", "base": ""}


def room(file):
    folder = str(Path(file).parent)
    return next((part for part in PARTS if folder.startswith(part)), folder)


wrong, seen = [], 0
for side in SIDES:
    for file in sorted(Path(side).rglob("*")):
        if file.suffix not in (".h", ".cc"):
            continue
        here = room(file)
        if here not in ROOMS:
            wrong.append(f"{file}: no room of that name is in the list")
            continue
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M):
            if "/" not in name or not Path(name).is_file():
                continue  # what the build writes
            there, seen = room(name), seen + 1
            if there not in ROOMS or ROOMS.index(there) > ROOMS.index(here):
                wrong.append(f"{file} includes {name}: {there} stands above {here}")
            elif not there.startswith(side) and not any(there.startswith(s) for s in SIDES[side].split()):
                wrong.append(f"{file} includes {name}: {side} knows nothing of {there}")
print("\n".join(wrong) or ("passed" if seen > 1000 else f"only {seen} includes were found"))
sys.exit(bool(wrong) or seen <= 1000)
E2
