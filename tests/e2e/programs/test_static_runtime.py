# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that carry a CUDA runtime of their own, as nvcc links them unless it is told otherwise."""
import os
import re
import shutil

import pytest

from e2e.flat import LIBRARIES, RUN, gxx, need, nvcc, run, succeed, written

TWICE = r"""
__global__ void kernel(int* p) { *p *= 2; }
extern "C" int twice(int n) {
    int* p = nullptr;
    if (cudaMalloc(&p, sizeof n) || cudaMemcpy(p, &n, sizeof n, cudaMemcpyDefault)) return -1;
    kernel<<<1, 1>>>(p);
    return cudaMemcpy(&n, p, sizeof n, cudaMemcpyDefault) || cudaFree(p) ? -1 : n;
}
"""

LINKED = r"""
#include <cstdio>
extern "C" int twice(int);
int main() { puts(twice(21) == 42 ? "PASSED" : "FAILED"); }
"""

OPENS = r"""
#include <dlfcn.h>
#include <cstdio>
int main(int, char** names) {  // again and again, each time elsewhere or in the same place
    bool good = true;
    for (int i = 0; i < 3; ++i) {
        void* library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL);
        auto* twice = library ? reinterpret_cast<int (*)(int)>(dlsym(library, "twice")) : nullptr;
        if (!twice) return puts(dlerror()), 1;
        good = good && twice(21 + i) == 42 + 2 * i;
        if (i) dlclose(library);
    }
    puts(good ? "PASSED" : "FAILED");
}
"""

BOTH = r"""
#include <cstdio>
extern "C" int twice(int);
__global__ void kernel(int* p) { *p += 1; }
int main() {
    int *p, n = 20;
    cudaMalloc(&p, sizeof n), cudaMemcpy(p, &n, sizeof n, cudaMemcpyDefault);
    kernel<<<1, 1>>>(p);
    cudaMemcpy(&n, p, sizeof n, cudaMemcpyDefault);
    puts(twice(n) == 42 ? "PASSED" : "FAILED");
}
"""


@pytest.fixture(scope="module", autouse=True)
def no_sanitizer():
    if re.search("U __[at]san_init", succeed("nm", "-D", LIBRARIES / "libbarcuda.so")):
        pytest.skip("not in a build under a sanitizer")


def compiled(output, *words):
    return nvcc(output, "-O2", "-Itests/programs", "-gencode", "arch=compute_75,code=compute_75", *words)


def passes(*command):
    ran = run(*RUN, *command)
    assert ran.status == 0 and "PASSED" in ran.said, ran


@pytest.fixture(scope="module")
def vector_add(shared):
    """A program as nvcc links it."""
    return compiled(shared / "vector_add", "tests/programs/vector_add.cu")


@pytest.fixture(scope="module")
def twice(shared):
    """A library with a runtime of its own."""
    return compiled(shared / "libtwice.so", "-shared", "-Xcompiler", "-fPIC", written(shared / "twice.cu", TWICE))


def test_a_program_as_nvcc_links_it_runs(vector_add):
    passes(vector_add)


def test_a_program_at_a_fixed_address_runs(scratch):
    passes(compiled(scratch / "no_pie", "-Xcompiler", "-no-pie", "-Xlinker", "-no-pie", "tests/programs/vector_add.cu"))


def test_children_of_a_program_that_has_only_allocated_run(scratch):
    passes(compiled(scratch / "fork_first", "tests/programs/fork_first.cu"))


def test_a_library_that_a_program_is_linked_with_runs(scratch, twice):
    passes(gxx(scratch / "linked", written(scratch / "linked.cc", LINKED), f"-L{twice.parent}", "-ltwice", f"-Wl,-rpath,{twice.parent}"))


def test_a_library_that_a_program_opens_runs(scratch, twice):
    passes(gxx(scratch / "opens", written(scratch / "opens.cc", OPENS), "-ldl"), twice)


def test_a_runtime_in_the_program_and_one_in_its_library_run(scratch, twice):
    passes(compiled(scratch / "both", written(scratch / "both.cu", BOTH), f"-L{twice.parent}", "-ltwice", "-Xlinker", "-rpath", "-Xlinker", twice.parent))


@pytest.fixture(scope="module")
def stripped(shared, vector_add):
    succeed("strip", "-o", shared / "stripped", vector_add)
    return shared / "stripped"


def test_a_program_without_symbols_runs(stripped):
    """The functions of its runtime are known by what they look like."""
    passes(stripped)


def test_a_runtime_that_is_not_known_is_told_why_it_cannot_work(scratch, vector_add, stripped):
    other = shutil.copy(stripped, scratch / "other")
    with open(other, "r+b") as file:
        for at in re.findall(r"^(\w+) T cudaGraph", succeed("nm", vector_add), re.M):
            file.seek(int(at, 16) + 100)  # a file is mapped as it stands
            file.write(b"x")
    ran = run(*RUN, other)
    assert ran.status != 0 and re.search("other carries a CUDA runtime of its own.*-cudart=shared", ran.said), ran


def test_a_program_without_ld_preload_is_told_why_it_cannot_work(vector_add):
    ran = run(*RUN, "env", "-u", "LD_PRELOAD", vector_add)
    assert ran.status != 0, ran
    if os.path.exists("/etc/ld.so.preload"):
        pytest.skip("/etc/ld.so.preload is there, too")
    assert re.search("was loaded too late.*barcuda exec", ran.said), ran


@pytest.mark.parametrize("version, lacks", [(12, "cudaBindTexture"), (11, "cudaGetDeviceProperties_v2")], ids=["12", "11"])
def test_a_runtime_of_an_older_toolkit_inside_a_program_runs(scratch, version, lacks):
    """What tells runtimes apart are the names that they have."""
    need("gcc")
    names = set(re.findall(r" (\w+)@@libcudart\.so\.13$", succeed("nm", "-D", LIBRARIES / "libbarcuda.so"), re.M)) - {lacks}
    runtime = written(scratch / "runtime.c", "".join(f"void {name}(void) {{}}\n" for name in sorted(names)))
    succeed("gcc", "-c", "-w", "-O2", "-o", scratch / "runtime.o", runtime)
    passes(gxx(scratch / "program", "-O1", "-Itests/programs", f"-DCUDA={version}", "tests/e2e/programs/older_runtime.cc", scratch / "runtime.o"))
