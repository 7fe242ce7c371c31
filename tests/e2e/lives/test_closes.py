# SPDX-License-Identifier: Apache-2.0
"""A program that closes all descriptors, as daemons do, loses nothing by it; and what a program is told where it cannot have more memory, or
where the GPU is lost, is true."""
import re
import signal

import pytest

from e2e.flat import BUILD, RUN, nvcc, run, written

# No address space for more of the region.
NO_SPACE = r"""
#include <cuda_runtime.h>
#include <sys/resource.h>
#include <cstdio>
#include <cstdlib>
int main() {
    void *device, *pinned;
    if (cudaMalloc(&device, 1 << 20) || cudaMallocHost(&pinned, 1 << 20)) return puts("no memory at first"), 1;
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    if (cudaMallocHost(&pinned, 200 << 20) != cudaErrorMemoryAllocation) return puts("pinned memory without address space"), 1;
    if (cudaMemset(device, 1, 1 << 20) || cudaDeviceSynchronize()) return puts("the GPU does not work"), 1;
    puts("PASSED");
}
"""


@pytest.mark.parametrize("when", ["before", "after", "both"])
@pytest.mark.parametrize("how", ["closefrom", "range", "loop", "system-call"])
def test_a_program_loses_nothing_that_closes_all_descriptors(how, when):
    ran = run(*RUN, BUILD / "e2e/closes", when, how)
    assert ran.status == 0 and "PASSED" in ran.out and "barcuda:" not in ran.said, ran


def test_without_address_space_the_gpu_works_on_and_no_message_says_that_it_is_lost(scratch):
    program = nvcc(scratch / "space", "-cudart", "shared", written(scratch / "space.cc", NO_SPACE))
    ran = run(*RUN, program)
    assert ran.status == 0 and "PASSED" in ran.out and "barcuda: this process gets no more memory of the region" in ran.err, ran
    assert not re.search("GPU is lost|region is full", ran.said), ran


def test_a_bridge_that_does_not_answer_is_what_a_program_is_told(region):
    bridge = region.serve("--no-vm")
    bridge.send_signal(signal.SIGSTOP)
    ran = region.client(BUILD / "programs/vector_add")
    bridge.send_signal(signal.SIGCONT)
    assert ran.status != 0 and "GPU is lost: the bridge does not answer" in ran.said and "region is full" not in ran.said, ran
