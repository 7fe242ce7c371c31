# SPDX-License-Identifier: Apache-2.0
"""Programs that are built with AddressSanitizer or UndefinedBehaviorSanitizer use CUDA, and what AddressSanitizer finds it still finds: its
runtime, where the user preloads it, stays in front of our library. Other libraries that the user preloads stay behind."""
import os
import shutil

import pytest

from e2e.flat import LIBRARIES, RUN, gxx, need, run, succeed, written

INCLUDE = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int argc, char**) {
    std::vector<int> sent(1 << 20, 7), got(1 << 20);
    const size_t bytes = sent.size() * sizeof sent[0];
    void *device, *pinned;
    if (cudaMalloc(&device, bytes) || cudaMallocHost(&pinned, bytes) || cudaMemcpy(device, sent.data(), bytes, cudaMemcpyHostToDevice) ||
        cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost) || cudaMemcpy(got.data(), device, bytes, cudaMemcpyDeviceToHost))
        return puts("a call has failed"), 1;
    volatile int at = argc > 1 ? 1 << 20 : 5;
    puts(got == sent && ((int*)pinned)[5] == 7 && got[at] == 7 ? "PASSED" : "wrong");
}
"""
A_MEGABYTE_TOO_FAR = "an argument"


@pytest.fixture(scope="module")
def runtime():
    """AddressSanitizer's runtime, as users preload it."""
    need("g++")
    if not os.path.isfile(file := succeed("g++", "-print-file-name=libasan.so").strip()):
        pytest.skip("g++ has no AddressSanitizer")
    return file


def built(scratch, *options):
    if not os.path.exists(f"{INCLUDE}/cuda_runtime_api.h"):
        pytest.skip("there is no CUDA toolkit")
    return gxx(scratch / "program", "-g", f"-I{INCLUDE}", *options, written(scratch / "program.cc", PROGRAM), f"-L{LIBRARIES}/barcuda", "-l:libcudart.so.13",
               "-Wl,--allow-shlib-undefined")


def says(text, *command, **variables):
    ran = run(*RUN, *command, env={"ASAN_OPTIONS": "detect_leaks=0", **variables})
    assert text in ran.said, ran


def test_a_program_with_address_sanitizer_runs_and_its_errors_are_found(runtime, scratch):
    program = built(scratch, "-fsanitize=address")
    says("PASSED", program, LD_PRELOAD=runtime)
    says("heap-buffer-overflow", program, A_MEGABYTE_TOO_FAR, LD_PRELOAD=runtime)


@pytest.mark.usefixtures("runtime")
def test_a_program_with_address_sanitizer_linked_in_runs(scratch):
    says("PASSED", built(scratch, "-fsanitize=address", "-static-libasan"))


@pytest.mark.usefixtures("runtime")
def test_a_program_with_undefined_behavior_sanitizer_runs(scratch):
    says("PASSED", built(scratch, "-fsanitize=undefined", "-fno-sanitize-recover=all"))


def test_what_is_not_a_sanitizers_comes_behind_our_library(scratch):
    other, sanitizer = scratch / "other.so", scratch / "libasan.so.8"
    gxx(other, "-shared", "-x", "c", "/dev/null")
    shutil.copy(other, sanitizer)

    def order(preloaded):
        return succeed(*RUN, "sh", "-c", 'echo "$LD_PRELOAD"', env={"LD_PRELOAD": preloaded}).strip()
    said = order(f"{other}:{sanitizer}")
    assert "libbarcuda.so:" in said and said.endswith(f"{other}:{sanitizer}"), said
    said = order(f"{sanitizer} {other}")
    assert said.startswith(f"{sanitizer} ") and "libbarcuda.so:" in said and said.endswith(str(other)), said
