#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stubs.py VERSION FOLDER OWN: what a linker needs to make files for every glibc from VERSION on.

Reads the dynamic symbols of this machine's libc.so.6, libm.so.6 and loader, and makes in FOLDER libraries of the same names that
have nothing but each of the symbols once: under its newest version that VERSION has already. Linked with -LFOLDER, a file asks for
those. What VERSION has not under any is undefined, so that linking fails, unless the archive OWN has it: the sources beside this
file. FOLDER/libc.so, which is what -lc finds, names them all.

What glibc keeps for programs of old alone (__xstat) is found under name and version only: OWN asks so.

Before 2.34 threads, dlopen and POSIX's timers had libraries of their own. libc.so.6 keeps the old versions of their symbols. The
stubs have them where they were, so what is linked names those libraries as well; newer systems still have them, empty.
"""
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

SYMBOL = re.compile(r"\s*\d+: ([0-9a-f]+) +(\w+) (FUNC|IFUNC|OBJECT) +\w+ +DEFAULT +\d+ (\S+?)@(@?)GLIBC_([\d.]+)$")
LOADER = "ld-linux-x86-64.so.2"
HOMES = {
    "libdl.so.2": re.compile(r"dl[a-z]"),
    "libpthread.so.0": re.compile(r"_*(pthread|sem)_"),
    "librt.so.1": re.compile(r"_*(aio|clock|lio|mq|shm|timer)_"),
}
OWN_IN_FRONT = {"__libc_start_main"}  # start.cc


def number(version):
    return tuple(map(int, version.split(".")))


@dataclass
class Symbol:
    name: str
    data: bool
    size: int
    address: int
    version: str
    moved: bool  # a newer version is the usual one
    hidden: bool  # found under its version only


def symbols_of(library, limit):
    lines = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True, capture_output=True, text=True).stdout
    versions = defaultdict(dict)
    for match in filter(None, map(SYMBOL.match, lines.splitlines())):
        versions[match[4]][number(match[6])] = match
    for name, of in versions.items():
        if old := [v for v in of if v <= limit]:
            match = of[max(old)]
            usual = [v for v in of if of[v][5]]
            yield Symbol(name, match[3] == "OBJECT", int(match[2], 0), int(match[1], 16), match[6], max(of) > limit,
                         not usual or name in OWN_IN_FRONT)


def write(compiler, file, soname, symbols):
    """Data that was at one address stays at one: a linker that copies it looks for its other names there."""
    nodes, text = defaultdict(list), []
    functions = [s for s in symbols if not s.data]
    data = sorted((s for s in symbols if s.data), key=lambda s: s.address)
    for i, s in enumerate(functions + data):
        label = f"hidden_{i}" if s.hidden else s.name
        nodes[s.version].append(label)
        text += [".bss", f".org {s.address - data[0].address}"] if s.data else [".text"]
        text += [f".globl {label}", f".type {label}, @{'object' if s.data else 'function'}", f".size {label}, {s.size}", f"{label}:"]
        if s.hidden:
            text.append(f".symver {label}, {s.name}@GLIBC_{s.version}, remove")
    script = file.with_suffix(".map")
    script.write_text("".join(f"GLIBC_{v} {{ {'; '.join(sorted(names))}; }};\n" for v, names in nodes.items()))
    subprocess.run([*compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}", "-o", file,
                    "-x", "assembler", "-"], check=True, input="\n".join(text) + "\n", text=True)


def main():
    limit, folder, own = number(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    compiler = shlex.split(os.environ.get("CC", "cc"))

    def place(name):
        return subprocess.run([*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()

    libraries = defaultdict(list)
    for soname in "libc.so.6", "libm.so.6", LOADER:
        for symbol in symbols_of(place(soname), limit):
            homes = [home for home, pattern in HOMES.items() if symbol.moved and pattern.match(symbol.name)]
            libraries[homes[0] if homes else soname].append(symbol)
    folder.mkdir(parents=True, exist_ok=True)
    for soname, symbols in libraries.items():
        write(compiler, folder / ("libm.so" if soname == "libm.so.6" else soname), soname, symbols)
    (folder / "libc.so").write_text(
        f"GROUP ( libc.so.6 {own} {place('libc_nonshared.a')} AS_NEEDED ( {' '.join(HOMES)} {LOADER} ) )\n")


main()
