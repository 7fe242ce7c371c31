#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/support.md: every function of CUDA's driver, runtime, cuBLAS, cuRAND and CUPTI, what Barcuda does with it, and its test.

`make docs` runs it; tests/e2e/programs/test_support.py fails when the page is no longer what it would write. Nothing here is a list of
functions: names come from shm-device/cuda/api.h and the toolkit's headers, what is done with them from what was built (the rows that
`barcuda support` prints, the section in which the guest library's refusals lie), tests from a search through tests/, why a
function is refused from shm-device/cuda/refused.h.
"""
import argparse
import collections
import difflib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
INCLUDE = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"

HOW = [
    ("call", "the guest sends it to the host and waits for the answer"),
    ("post", "the guest sends it and goes on; a failure comes out at a later synchronizing call"),
    ("guest", "the guest library answers it, or makes it of others"),
    ("runtime", "the guest library's runtime makes it of the driver's functions"),
    ("refused", "says once on standard error why, and what to do instead, in the words below (`shm-device/cuda/refused.h`), and answers "
                "so: `CUDA_ERROR_NOT_SUPPORTED`, `cudaErrorNotSupported`, `CUBLAS_STATUS_NOT_SUPPORTED`, "
                "`CURAND_STATUS_INTERNAL_ERROR`, `CUPTI_ERROR_NOT_SUPPORTED`"),
]


class Refusals:
    """shm-device/cuda/refused.h: why functions are refused, and what to do instead; the first entry that names one counts."""

    def __init__(self):
        text = (TOP / "shm-device/cuda/refused.h").read_text().split("#define BARCUDA_REFUSED(X)")[1]
        text = re.sub(r"\\\s*\n", "\n", text)
        entries = re.findall(r'X\(((?:[^")]|"[^"]*")*)\)', text)
        self.entries = []
        for entry in entries:
            strings = re.findall(r'((?:"[^"]*"\s*)+)', entry)
            why, instead, names = ("".join(re.findall(r'"([^"]*)"', s)) for s in strings)
            self.entries.append((f"{why}; {instead}", names.split()))
        self.used = set()

    def of(self, name):
        for number, (reason, patterns) in enumerate(self.entries):
            for pattern in patterns:
                if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
                    self.used.add((number, pattern))
                    return number, reason
        sys.exit(f"{name} is refused, and shm-device/cuda/refused.h does not say why")

    def check(self, refused):
        """Whatever refuses says why; and every entry, and every name in it, is still somebody's."""
        for name in refused:
            self.of(name)
        idle = [p for number, (_, patterns) in enumerate(self.entries) for p in patterns if (number, p) not in self.used]
        if idle:
            sys.exit("shm-device/cuda/refused.h says why " + ", ".join(idle) + " is refused, and nothing of the name is")


REFUSALS = Refusals()


def of_windows():
    """What NVIDIA's libraries for Windows alone export, and ours refuse there."""
    driver = re.findall(r"(?:FIRST|LATER)\((cu\w+)", (TOP / "shm-device/cuda/direct3d.h").read_text())
    runtime = re.findall(r"UNSUPPORTED\((\w+)\)", (TOP / "guest-windows/guest-allocator/runtime/direct3d.cc").read_text())
    return {*driver, *runtime}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Build:
    """What was built: which names the guest library exports, which of them only refuse, which are rows."""

    def __init__(self, folder):
        library = str(folder / "lib/libbarcuda.so")
        section = re.search(r"barcuda_unsupported\s+PROGBITS\s+(\w+) \w+ (\w+)", output("readelf", "-SW", library))
        begin, size = (int(x, 16) for x in section.groups())
        self.exported, self.refused = set(), set()
        for line in output("nm", "-D", "--defined-only", library).splitlines():
            address, _, name = line.split()
            name = name.split("@")[0]
            self.exported.add(name)
            if begin <= int(address, 16) < begin + size and not name.startswith(("__start_", "__stop_")):  # the linker's marks
                self.refused.add(name)
        # They look at their arguments before they refuse.
        external = output("nm", "-g", "--defined-only", str(folder / "guest-allocator/driver/external.o"))
        self.refused |= {name for name in re.findall(r" T (cu\w+)$", external, re.M)}
        self.rows = {row["name"]: row["how"].removeprefix("inner_")
                     for row in json.loads(output(str(folder / "bin/barcuda"), "support", "--json"))}
        self.uses = self.driver_functions_of_the_runtime(folder / "guest-runtime.a")
        # A function of the runtime that refers to one of the driver's which is refused is refused with it.
        self.refused |= {f for f, driver in self.uses.items() if driver & self.refused}

    @staticmethod
    def driver_functions_of_the_runtime(archive):
        """Of each function of the runtime: the driver's that its machine code refers to, itself or by functions of its file."""
        refers, current = collections.defaultdict(set), None
        for line in output("objdump", "-dr", "--no-show-raw-insn", str(archive)).splitlines():
            if m := re.match(r"[0-9a-f]+ <(.+)>:$", line):
                current = m[1].removesuffix(".cold")
            elif current and (m := re.search(r"R_X86_64_\w+\s+([^\s+-]+)|\s(?:call|jmp|lea)\b.*<([^>+]+)", line)):
                refers[current].add((m[1] or m[2]).removesuffix(".cold"))
        uses = {}
        for function in [f for f in refers if re.match(r"cuda[A-Z]\w*$", f)]:
            seen, todo = set(), [function]
            while todo:
                for name in refers.get(todo.pop(), ()):
                    if name not in seen:
                        seen.add(name)
                        if not re.match(r"cu(da)?[A-Z]", name):
                            todo.append(name)
            uses[function] = {name for name in seen if re.match(r"cu[A-Z]", name)}
        return uses

    def how(self, name):
        if name not in self.exported:
            return None
        if name in self.refused:
            return "refused"
        return self.rows.get(name) or self.rows.get(name.removesuffix("_64")) or "guest"


class Tests:
    """Which test names a function: whole programs first, then unit tests."""

    def __init__(self):
        patterns = ("programs/*.cu", "programs/*.h", "e2e/*/*.cu", "e2e/*/*.h", "e2e/*/*.cc", "e2e/*/*.sh", "e2e/*/*.py", "vm/*_test.*",
                    "soft/kernels/*.cu", "unit/*/*_test.cc")
        self.files, self.named = [], collections.defaultdict(list)
        for file in [f for pattern in patterns for f in sorted((TOP / "tests").glob(pattern))]:
            # The first two test the software GPU, not Barcuda; the others hold lists of names.
            if re.match(r"soft_|ptx_|api_table|runtime_exports|test_support", file.name):
                continue
            text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", file.read_text(), flags=re.S)
            if "<<<" in text:
                text += " cudaLaunchKernel"
            for name in set(re.findall(r"\bcu[a-zA-Z]\w+", text)):
                self.named[name].append(len(self.files))
            file = file.relative_to(TOP / "tests")
            self.files.append(str(file if file.suffix == ".h" else file.with_suffix("")))

    def of(self, names, runtime=True):
        """unit/runtime run the runtime over the software GPU's driver: what they call of the guest's driver layer is nothing."""
        for test in sorted(test for name in names for test in self.named.get(name, ())):
            if runtime or not self.files[test].startswith("unit/runtime/"):
                return f"`{self.files[test]}`"
        return None


def driver_symbols():
    """(name, [symbols, the oldest first]) of every function of the driver; none with 32-bit sizes, which no program means."""
    names, narrow = collections.OrderedDict(), set()
    for first, later in re.findall(r"\b(?:FIRST\((cu[^)]*)|LATER\((cu[^)]*))\)", (TOP / "shm-device/cuda/api.h").read_text()):
        if first:
            names[first.split(",")[0]] = [first.split(",")[0]]
        else:
            symbol, name, _, _, form = [x.strip() for x in later.split(",")]
            names[name].append(symbol)
            if form == "wide":
                narrow.add(name)
    return [(name, symbols[1:] if name in narrow else symbols) for name, symbols in names.items()]


def declared(pattern, *headers):
    names = []
    for header in headers:
        names += re.findall(pattern, re.sub(r"\s+", " ", (INCLUDE / header).read_text()))
    return list(dict.fromkeys(names))


def paragraph(text, indent=""):
    return textwrap.wrap(text, 128, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def table(rows):
    return ["| function | how | test |", "|---|---|---|"] + [f"| {name} | {how} | {test or '-'} |" for name, how, test in rows]


def refusals(names):
    groups = collections.defaultdict(list)
    for name in names:
        groups[REFUSALS.of(name)].append(name)
    lines = []
    for (_, reason), group in sorted(groups.items()):
        lines += paragraph(f"- **{reason[0].upper() + reason[1:]}.** " + ", ".join(f"`{n}`" for n in sorted(group)), "  ")
    return lines


def section(title, about, served, refused):
    counts = collections.Counter(how for _, how, _ in served)
    tested = sum(1 for _, _, test in served if test)
    kinds = ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    summary = (f"{about} {len(served) + len(refused)} functions: {len(served)} served ({kinds}), of which a test names {tested}; "
               f"{len(refused)} refused.")
    return ([f"## {title}", "", *paragraph(summary), ""] + table(served) + ["", "Refused:", ""] + refusals(refused) + [""])


def driver(build, tests):
    used_by = collections.defaultdict(list)
    for function, names in sorted(build.uses.items(), key=lambda item: (len(item[1]), item[0])):  # the plainest first
        for name in names:
            used_by[name].append(function)

    def test_of(symbols):
        if found := tests.of(symbols, runtime=False):
            return found
        for symbol in symbols:
            if len(used_by[symbol]) > 12:  # what much of the runtime refers to somewhere, no test of one function need reach
                continue
            for function in used_by[symbol]:
                if found := tests.of([function], runtime=False):
                    return f"{found}, by `{function}`"
        return None

    served, refused = [], []
    for name, symbols in driver_symbols():
        hows = {symbol: build.how(symbol) for symbol in symbols}
        newest = symbols[-1]
        older = [s for s in symbols if hows[s] not in ("refused", None)]
        if hows[newest] == "refused" and not older:
            refused.append(newest)
        elif hows[newest] == "refused":  # an older form of it is there
            served.append((f"`{older[-1]}` (`{newest}` is refused)", hows[older[-1]], test_of([older[-1], name])))
        else:
            served.append((f"`{newest}`", hows[newest], test_of([newest, name])))
    return section("The driver", "Those of `<cuda.h>`, `<cudaProfiler.h>` and of the headers for graphics, under the name of their newest form; older forms are "
                   "there too (`shm-device/cuda/api.h`).", served, refused)


def runtime(build, tests):
    names = declared(r"CUDARTAPI (cuda[A-Z]\w*) ?\(", "cuda_runtime_api.h", "cuda_profiler_api.h", "cuda_gl_interop.h",
                     "cuda_egl_interop.h", "cuda_vdpau_interop.h")
    names = [n for n in names if n in build.exported]  # not those of Windows
    served = [(f"`{n}`", "runtime", tests.of([n])) for n in names if build.how(n) != "refused"]
    return section("The runtime", "Those of `<cuda_runtime_api.h>` and of the headers for the profiler and graphics. They are made of "
                   "the driver's.", served, [n for n in names if build.how(n) == "refused"])


def library(title, about, build, tests, pattern, *headers):
    served, refused = [], []
    names = declared(pattern, *headers)
    for name in names:
        how = build.how(name)
        if name.endswith("_64") and name[:-3] in names and build.how(name[:-3]) == how:
            continue
        shown = f"`{name}`" + (", `_64`" if f"{name}_64" in names and build.how(f"{name}_64") == how else "")
        if how in ("refused", None):
            refused.append(name)
        else:
            served.append((shown, how, tests.of([name, name.removesuffix("_v2")])))
    return section(title, about, served, refused)


def page(build, tests):
    cublas = r"CUBLASWINAPI (cublas[A-Z]\w*) ?\("
    head = ["# What is supported", "", "<!-- docs/support.py writes this page (make docs); do not edit it. -->", ""]
    head += paragraph("Every function of CUDA 13.0, and what a program that calls it gets. Programs of CUDA 11 and 12 get the same under "
                      "the names and with the parameters that they know.")
    head += ["", "| how | |", "|---|---|"] + [f"| {how} | {what} |" for how, what in HOW]
    head += ["", *paragraph("*test* is the first test that names the function, a whole program where there is one; `-`: none does. What a "
                            "served function does not do is at the end of [cuda-users.md](cuda-users.md)."), ""]
    return "\n".join(
        head + driver(build, tests) + runtime(build, tests)
        + library("cuBLAS", "Those of `<cublas_api.h>`, `<cublas.h>`, `<cublasXt.h>` and `<cublasLt.h>`, for guests that use the host's "
                  "libraries. `_64`: the twin with 64-bit sizes too.", build, tests, cublas, "cublas_api.h", "cublas.h", "cublasXt.h",
                  "cublasLt.h")
        + library("cuRAND", "Those of `<curand.h>`, for guests that use the host's libraries.", build, tests,
                  r"CURANDAPI (curand[A-Z]\w*) ?\(", "curand.h")
        + library("CUPTI", "Those of the headers that `<cupti.h>` and its interfaces of counters are: see [profiling.md](profiling.md).",
                  build, tests, r"CUptiResult(?: CUPTIAPI)? (cupti[A-Z]\w*) ?\(", *(f"cupti_{name}.h" for name in (
                      "result", "version", "activity", "callbacks", "events", "metrics", "pcsampling", "pmsampling", "profiler_host",
                      "profiler_target", "range_profiler", "sass_metrics"))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not what would be written")
    options = parser.parse_args()
    file = TOP / "docs/support.md"
    build = Build(options.build)
    text = page(build, Tests())
    REFUSALS.check(build.refused | of_windows())
    if not options.check:
        file.write_text(text)
        return 0
    before, after = file.read_text().splitlines(), text.splitlines()
    if before == after:
        return 0
    print("\n".join(list(difflib.unified_diff(before, after, "docs/support.md", "what is so", lineterm="", n=0))[:40]))
    print("docs/support.md is not what the tree says: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
