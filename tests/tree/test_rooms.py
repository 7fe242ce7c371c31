# SPDX-License-Identifier: Apache-2.0
"""Each folder of the source is a room. A file may include what its room has and what rooms earlier in ROOMS have: so every arrow between rooms
points one way, and there is no circle. Where a room calls what a later one defines, the earlier room has the header."""
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# From what stands below everything to what stands on top.
ROOMS = """
include include/sys
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
# guest-windows/ROOM has the files of ROOM that are others on Windows. They belong to that room, and may know the same; only such files know
# a header that is nowhere else. What stands for headers of Linux is in its folder `include`.
OTHER_SYSTEMS = ("guest-windows",)
BUILT = {"soft_functions.h", "device_plugin.grpc.pb.h"}  # the build writes them


def includes(file):
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(), re.M)


def is_in(folder, part):
    return folder == part or folder.startswith(part + "/")


class Tree:
    def __init__(self, top, rooms=ROOMS):
        self.top, self.rooms, self.seen, self.found = top, rooms, 0, []
        for part in SIDES:
            for file in self.files(part):
                self.look(file, part, file)
        for system in OTHER_SYSTEMS:
            for file in self.files(system):
                as_if = file.relative_to(system)
                self.look(file, as_if.parts[0], as_if, system)
        empty = [room for room in rooms if not any(any((top / where / room).glob("*.*")) for where in (".", *OTHER_SYSTEMS))]
        self.found += [f"{room}: the list has a room that is not there" for room in empty]

    def files(self, folder):
        return [file.relative_to(self.top) for file in sorted((self.top / folder).rglob("*")) if file.suffix in (".h", ".cc", ".c")]

    def is_there(self, name):
        return (self.top / name).is_file() and ".." not in str(name)

    def look(self, file, side, as_if, system=""):
        here, names = str(as_if.parent), includes(self.top / file)
        if side == "guest-uio":
            self.found += [f"{file} includes {name}" for name in names if name != "layout.h" and not self.is_there(file.parent / name)]
        elif here not in self.rooms:
            self.found.append(f"{file}: no room of that name is in the list")
        else:
            for name in set(names) - BUILT:
                self.follow(file, side, here, name.removeprefix(system + "/"), system)

    def follow(self, file, side, here, name, system):
        if not self.is_there(name) and not (system and self.is_there(Path(system) / name)):
            self.found.append(f"{file} includes {name}: name it from the top of the tree")
            return
        there = str(Path(name).parent)
        self.seen += 1
        if there not in self.rooms or self.rooms.index(there) > self.rooms.index(here):
            self.found.append(f"{file} includes {name}: {there} stands above {here}")
        elif not is_in(there, "include") and not any(is_in(there, part) for part in [side, *SIDES.get(side, "").split()]):
            self.found.append(f"{file} includes {name}: {side} knows nothing of {there}")


def test_no_include_points_upward():
    tree = Tree(TOP)
    assert "\n".join(tree.found) == ""
    assert tree.seen > 1000


FILES = {"base/os/a.h": "", "base/b.h": '#include "base/os/a.h"\n', "shm-device/c.cc": '#include "base/b.h"\n',
         "guest-windows/base/os/w.h": "", "guest-windows/base/os/a.cc": '#include "base/os/a.h"\n  # include "base/os/w.h"\n',
         "guest-windows/include/glibc.h": ""}


@pytest.mark.parametrize("file, text, complaint", [
    ("base/d.cc", '#include "base/os/a.h"', None),
    ("base/os/d.cc", '#include "base/b.h"', "base stands above base/os"),
    ("base/d.cc", '#include "os/a.h"', "name it from the top"),
    ("base/new/d.cc", "", "no room of that name"),
    ("soft-gpu/d.cc", '#include "base/b.h"', "soft-gpu knows nothing of base"),
    ("guest-uio/d.c", '#include "layout.h"\n#include <linux/fs.h>', None),
    ("guest-uio/d.c", '#include "base/b.h"', "guest-uio/d.c includes base/b.h"),
    ("base/d.cc", '#include "base/os/w.h"', "name it from the top"),
    ("guest-windows/base/d.cc", '#include "base/os/w.h"', None),
    ("guest-windows/base/os/d.cc", '#include "base/b.h"', "base stands above base/os"),
    ("guest-windows/soft-gpu/d.cc", '#include "base/b.h"', "soft-gpu knows nothing of base"),
    ("guest-windows/other/d.cc", "", "no room of that name"),
])
def test_what_is_wrong_is_found(tmp_path, file, text, complaint):
    for name, its in {**FILES, file: text}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(its)
    found = Tree(tmp_path, ["include", "base/os", "base", "shm-device", *(["soft-gpu"] if "soft-gpu" in file else [])]).found
    found = [line for line in found if "is not there" not in line]
    assert len(found) == (complaint is not None) and (complaint or "") in "".join(found)


def test_a_room_that_has_gone_is_found(tmp_path):
    assert Tree(tmp_path, ["base"]).found == ["base: the list has a room that is not there"]
