#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runtime_shapes.py [ARCHIVE...]: what the public functions of NVIDIA's static runtimes look like.

Writes C++: for each libcudart_static.a of a toolkit, for each function cuda* and __cuda*, where it stands in its object, its
size, the places that a linker fills in, a hash of all other bytes, and a few of those bytes to look for. runtime/find_runtime.cc
finds the functions by that in files without symbols. Nothing of such a runtime is kept but those few bytes.
"""
import re
import struct
import subprocess
import sys
import tempfile

ANCHOR = 24  # bytes to look for, at most
# Relocations whose instruction a linker may rewrite: the two or three bytes in front belong to the hole.
RELAXED = {9, 19, 20, 22, 23, 41, 42}  # GOTPCREL, TLSGD, TLSLD, GOTTPOFF, TPOFF32, GOTPCRELX, REX_GOTPCRELX
WIDE = {1}  # R_X86_64_64


def sections_of(data):
    at, = struct.unpack_from('<Q', data, 0x28)
    count, names = struct.unpack_from('<HH', data, 0x3c)
    headers = [struct.unpack_from('<IIQQQQIIQQ', data, at + i * 64) for i in range(count)]
    return headers


def text(data, table, at):
    start = table[4] + at
    return data[start:data.index(b'\0', start)].decode()


def shapes_of(data):
    """(name, offset, code, holes) for each public function of an object."""
    sections = sections_of(data)
    symbols = next(s for s in sections if s[1] == 2)
    relocations = {}
    for s in sections:
        if s[1] == 4:  # SHT_RELA
            relocations[s[7]] = sorted((at, info & 0xffffffff) for at, info, _ in
                                       (struct.unpack_from('<QQq', data, s[4] + i * 24) for i in range(s[5] // 24)))
    for i in range(symbols[5] // 24):
        name, info, _, section, value, size = struct.unpack_from('<IBBHQQ', data, symbols[4] + i * 24)
        name = text(data, sections[symbols[6]], name)
        if info & 15 != 2 or not section or not re.match(r'(__)?cuda[A-Z]', name):
            continue
        start = sections[section][4] + value
        code = bytearray(data[start:start + size])
        holes = []
        for at, kind in relocations.get(section, []):
            first, last = at - value - (3 if kind in RELAXED else 0), at - value + (8 if kind in WIDE else 4)
            if last > 0 and first < size:
                holes.append((max(first, 0), min(last, size)))
        for first, last in holes:
            code[first:last] = bytes(last - first)
        yield name, value, code, holes


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def anchor_of(code, holes):
    """The longest run of bytes without a hole, or its beginning."""
    best, start = (0, 0), 0
    for first, last in [*holes, (len(code), len(code))]:
        if first - start > best[1] - best[0]:
            best = start, first
        start = last
    return best[0], code[best[0]:min(best[1], best[0] + ANCHOR)]


def objects_of(archive):
    with tempfile.TemporaryDirectory() as folder:
        for name in subprocess.check_output(['ar', 't', archive], text=True).split():
            subprocess.check_call(['ar', 'x', archive, name], cwd=folder)
            with open(f'{folder}/{name}', 'rb') as f:
                yield f.read()


print('#include "guest-allocator/runtime/find_runtime.h"\n\nnamespace barcuda::runtime {\nnamespace {')
runtimes = []
for archive in sys.argv[1:]:
    for data in objects_of(archive):
        shapes = sorted(shapes_of(data), key=lambda s: s[1])
        if len(shapes) < 100:
            continue
        n = len(runtimes)
        for i, (_, _, _, holes) in enumerate(shapes):
            print(f'constexpr Hole holes_{n}_{i}[] = {{{", ".join("{%d, %d}" % h for h in [*holes, (0, 0)])}}};')
        print(f'constexpr CodeShape shapes_{n}[] = {{')
        for i, (name, offset, code, holes) in enumerate(shapes):
            at, anchor = anchor_of(code, holes)
            literal = ''.join(f'\\x{b:02x}' for b in anchor)
            print(f'    {{"{name}", {offset}, {len(code)}, {fnv(code):#x}, {at}, {{"{literal}", {len(anchor)}}}, holes_{n}_{i}}},')
        print('};')
        runtimes.append(f'shapes_{n}')
print('constexpr std::span<const CodeShape> all[] = {', ', '.join([*runtimes, '{}']), '};\n}  // namespace')
print('extern const std::span<const std::span<const CodeShape>> known_runtimes = all;\n}  // namespace barcuda::runtime')
