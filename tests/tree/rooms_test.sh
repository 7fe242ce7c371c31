#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each folder of the source is a room. A file may include what its room has and what rooms earlier in this list have: so every arrow
# between rooms points one way, and there is no circle. Where a room calls what a later one defines, the earlier room has the header.
cd "$(dirname "$0")/../.." && exec python3 - <<'E2'
import re
import sys
from pathlib import Path

# From what stands below everything to what stands on top.
ROOMS = """
base/os base base/cli
shm-device shm-device/queue shm-device/kinds shm-device/cuda shm-device/rows shm-device/doors shm-device/region
soft-gpu soft-gpu/ptx soft-gpu/compiler soft-gpu/driver soft-gpu/driver/calls soft-gpu/blas soft-gpu/random soft-gpu/nvml soft-gpu/cupti
guest-allocator/glibc guest-allocator/pmem guest-allocator/commands guest-allocator/heap guest-allocator/heap/registered
guest-allocator/client guest-allocator/driver guest-allocator/driver/managed/state guest-allocator/driver/managed/mechanism
guest-allocator/driver/managed guest-allocator/runtime guest-allocator/libraries guest-allocator/cupti guest-allocator/nvml
host-bridge/between host-bridge/cage host-bridge/monitor host-bridge/watch
host-bridge/suspended host-bridge/keeper
host-bridge/worker/quota host-bridge/worker/memory host-bridge/worker/births host-bridge/worker/session host-bridge/worker/bodies host-bridge/worker
host-bridge/bridge host-bridge/cli host-bridge/exporter host-bridge/kubernetes host-bridge
""".split()
# What each part of the tree may know, beside itself.
SIDES = {
    "base": "",
    "shm-device": "base",
    "guest-uio": "",  # and layout.h, which its Makefile finds
    "guest-allocator": "base shm-device",
    "host-bridge": "base shm-device guest-allocator/commands",
    "soft-gpu": "shm-device/cuda shm-device/rows",
}
BUILT = {"soft_functions.h", "device_plugin.grpc.pb.h"}  # the build writes them


def includes(file):
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(), re.M)


def is_in(folder, part):
    return folder == part or folder.startswith(part + "/")


wrong, seen = [], 0
for side in SIDES:
    for file in sorted(Path(side).rglob("*")):
        if file.suffix not in (".h", ".cc", ".c"):
            continue
        here = str(file.parent)
        if here == "guest-uio":
            wrong += [f"{file} includes {name}" for name in includes(file) if name != "layout.h" and not (file.parent / name).is_file()]
            continue
        if here not in ROOMS:
            wrong.append(f"{file}: no room of that name is in the list")
            continue
        for name in includes(file):
            if name in BUILT:
                continue
            if not Path(name).is_file() or ".." in name:
                wrong.append(f"{file} includes {name}: name it from the top of the tree")
                continue
            there, seen = str(Path(name).parent), seen + 1
            if there not in ROOMS or ROOMS.index(there) > ROOMS.index(here):
                wrong.append(f"{file} includes {name}: {there} stands above {here}")
            elif not any(is_in(there, part) for part in [side, *SIDES[side].split()]):
                wrong.append(f"{file} includes {name}: {side} knows nothing of {there}")
unused = [name for name in ROOMS if not any(Path(name).glob("*.*"))]
wrong += [f"{name}: the list has a room that is not there" for name in unused]
print("\n".join(wrong) or ("passed" if seen > 1000 else f"only {seen} includes were found"))
sys.exit(bool(wrong) or seen <= 1000)
E2
