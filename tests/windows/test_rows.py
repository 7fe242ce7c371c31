# SPDX-License-Identifier: Apache-2.0
"""A guest that mingw has compiled and a host that g++ has: each row's identity, the size of each of its parameters, and each member of each
struct have to be the same, since the bytes that one writes are those that the other reads."""
import re
import subprocess

import pytest

from windows.under_wine import BUILD, need_built, wine

NATIVE, WINDOWS = BUILD / "windows/native", BUILD / "windows"
LINE = re.compile(r" <(\d+)><([0-9a-f]+)>: Abbrev Number: (?:0|\d+ \(DW_TAG_(\w+)\))$| +<[0-9a-f]+> +DW_AT_(\w+) *:(?: \(indirect.*offset: \S+\):)? ?(.*)")
AGGREGATES = "structure_type", "union_type", "class_type"
# CUDA's names, and the project's. What else there is is the compilers' own: their libraries differ, and nothing of them crosses.
OURS = re.compile("CU|cu|nvml|barcuda")
OTHERS = re.compile(r"^(_|std$|__gnu_cxx$)")


class Entry:
    """One thing that DWARF describes, and what is in it."""

    def __init__(self, tag):
        self.tag, self.facts, self.children = tag, {}, []

    def name(self):
        return self.facts.get("name", "").strip()

    def number(self, fact):
        return int(self.facts[fact].split()[0], 0) if fact in self.facts else 0


class Types:
    """The types of an object file."""

    def __init__(self, file, objdump):
        self.entries, path = {}, []
        self.root = Entry("root")
        dumped = subprocess.run([objdump, "--dwarf=info", file], stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in dumped.splitlines():
            if not (match := LINE.match(line)):
                continue
            if match[1]:
                del path[int(match[1]):]
                if match[3]:
                    entry = self.entries[match[2]] = Entry(match[3])
                    (path[-1] if path else self.root).children.append(entry)
                    path.append(entry)
            elif path:
                path[-1].facts[match[4]] = match[5]

    def type_of(self, entry):
        return self.entries.get(entry.facts.get("type", "").strip().removeprefix("<0x").removesuffix(">"))

    def size(self, entry):
        """In bytes; None: it is not known."""
        if entry is None:
            return None
        if "byte_size" in entry.facts:
            return entry.number("byte_size")
        if entry.tag == "array_type":
            each = self.size(self.type_of(entry))
            for bound in entry.children:
                each = None if each is None or "upper_bound" not in bound.facts else each * (bound.number("upper_bound") + 1)
            return each
        return self.size(self.type_of(entry))

    def members(self, entry, at=0):
        for member in entry.children:
            if member.tag not in ("member", "inheritance") or "external" in member.facts or "data_member_location" not in member.facts and \
                    entry.tag != "union_type":
                continue
            offset, its = at + member.number("data_member_location"), self.type_of(member)
            while its and its.tag in ("typedef", "const_type", "volatile_type"):
                its = self.type_of(its)
            yield offset, member.name(), self.size(its), member.facts.get("data_bit_offset")
            if its and its.tag in AGGREGATES and not its.name():  # one without a name has no other place where it is looked at
                yield from self.members(its, offset)

    def table(self):
        """{name: (bytes, its members)} of each named type that has members."""
        table = {}

        def walk(entry, scope):
            for child in entry.children:
                if child.tag in ("unit", "compile_unit"):
                    walk(child, scope)
                elif child.tag == "namespace" and not OTHERS.match(child.name()):
                    walk(child, f"{scope}{child.name()}::")
                elif child.tag in (*AGGREGATES, "typedef"):
                    its = self.type_of(child) if child.tag == "typedef" else child
                    if not its or its.tag not in AGGREGATES or not child.name() or OTHERS.match(child.name()) or "byte_size" not in its.facts:
                        continue
                    table[scope + child.name()] = (its.number("byte_size"), list(self.members(its)))
                    walk(child, f"{scope}{child.name()}::")

        walk(self.root, "")
        return table


def test_rows_are_the_same():
    need_built(NATIVE / "rows", WINDOWS / "rows.exe")
    ours = subprocess.run([NATIVE / "rows"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    theirs = wine(WINDOWS / "rows.exe").splitlines()
    assert len(ours) > 400
    assert [pair for pair in zip(ours, theirs) if pair[0] != pair[1]] == []
    assert len(ours) == len(theirs)


@pytest.fixture(scope="module")
def tables():
    need_built(NATIVE / "types.o", WINDOWS / "tests/windows/types.o")
    return Types(NATIVE / "types.o", "objdump").table(), Types(WINDOWS / "tests/windows/types.o", "x86_64-w64-mingw32-objdump").table()


def test_structs_are_the_same(tables):
    ours, theirs = ({name: its for name, its in table.items() if OURS.match(name) and "<" not in name} for table in tables)
    assert len(ours) > 300
    assert sorted(ours) == sorted(theirs)
    # The runtime makes it, in the program's process; `long` has four bytes on Windows, there as with NVIDIA's own runtime.
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name] and name != "cudaPointerAttributes"} == {}
    assert ours["cudaPointerAttributes"][0] != theirs["cudaPointerAttributes"][0]


def test_structs_are_read_as_they_are(tables):
    for table in tables:
        assert table["barcuda_slot"][0] == 128 and (64, "reclaimed", 4, None) in table["barcuda_slot"][1]
        assert table["CUDA_MEMCPY3D_v2"][0] == 200 and (192, "Depth", 8, None) in table["CUDA_MEMCPY3D_v2"][1]
        for name in "barcuda_header", "barcuda_client", "barcuda_status", "CUDA_KERNEL_NODE_PARAMS_v2", "cudaDeviceProp", "barcuda::RequestHead":
            assert table[name][1], name
