# SPDX-License-Identifier: Apache-2.0
"""A program that forks before it has used CUDA has children that can use it, wherever its memory came from; and what is run by other ways is no
such child."""
import sys

import pytest

from e2e.flat import BUILD, RUN, run, written

SETTINGS = [("BARCUDA_HEAP", "auto"), ("BARCUDA_HEAP", "always"), ("BARCUDA_HEAP", "never"), ("BARCUDA_THRESHOLD", "0")]
# Workers of Python's multiprocessing, as a DataLoader has them: only they use CUDA, and their parent's memory.
POOL = """
import ctypes, multiprocessing, os
data = (ctypes.c_int * (1 << 18))(*range(1 << 18))  # a megabyte

def work(n):
    cuda = ctypes.CDLL("libcudart.so.13")
    device, back = ctypes.c_void_p(), (ctypes.c_int * len(data))()
    size = ctypes.c_size_t(ctypes.sizeof(data))
    data[0] = n
    for error in (cuda.cudaMalloc(ctypes.byref(device), size), cuda.cudaMemcpy(device, data, size, 1),
                  cuda.cudaMemcpy(back, device, size, 2), cuda.cudaFree(device)):
        if error: return f"error {error}"
    return "fine" if back[0] == n and back[1:] == data[1:] else "wrong"

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        results = pool.map(work, range(100, 108), chunksize=1)
    assert data[0] == 0 and results == ["fine"] * 8, results
    os.system("true"), os.popen("true").read()
    assert work(7) == "fine", work(7)  # the parent, after them
    late = multiprocessing.get_context("fork").Process(target=lambda: os._exit(work(7) == "error 3"))
    late.start(), late.join()
    assert late.exitcode == 1, late.exitcode
    print("PASSED")
"""


def passes_silently(*command, **variables):
    ran = run(*RUN, *command, env=variables)
    assert ran.status == 0 and "PASSED" in ran.said and "barcuda:" not in ran.said, ran


@pytest.mark.parametrize("name, value", SETTINGS)
def test_children_of_a_program_that_forks_first_use_cuda(name, value):
    passes_silently(BUILD / "programs/fork_first", **{name: value})


@pytest.mark.parametrize("heap", ["auto", "always"])
def test_workers_of_pythons_multiprocessing_use_cuda_and_their_parents_memory(scratch, heap):
    passes_silently(sys.executable, written(scratch / "pool.py", POOL), BARCUDA_HEAP=heap)
