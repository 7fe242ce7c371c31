# SPDX-License-Identifier: Apache-2.0
"""A program that is not started with the library in front opens it by the driver's name when it wants CUDA, as ctypes does. One that is may
open NVIDIA's runtime by its path, and ask that file for its functions: it gets ours."""
import os
import shutil
import sys
from pathlib import Path

import pytest

from e2e.flat import RUN, need, run, succeed, written

WITHOUT_THE_LIBRARY = "env", "-u", "LD_PRELOAD"

BY_THE_DRIVERS_NAME = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, device, there = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
sent, back = bytes(range(256)) * 4096, ctypes.create_string_buffer(1 << 20)
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(len(sent)))):
    assert result == 0, result
for result in (cuda.cuMemcpyHtoD_v2(there, sent, ctypes.c_size_t(len(sent))), cuda.cuMemcpyDtoH_v2(back, there, ctypes.c_size_t(len(sent))),
               cuda.cuMemFree_v2(there)):
    assert result == 0, result
assert back.raw[:len(sent)] == sent
"""


def test_a_program_opens_the_driver_by_its_name():
    succeed(*RUN, *WITHOUT_THE_LIBRARY, sys.executable, "-c", BY_THE_DRIVERS_NAME)


ANSWERS_5 = "__thread int own = 5; int get(void) { return own; }"
MANY_FILES = """
import ctypes, sys
cuda, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0
for i in range(1, 151):
    opened = ctypes.CDLL(f"{sys.argv[1]}/{i}.so")
    assert i % 10 or opened.get() == 5
"""


def compiled(output, source):
    need("cc")
    succeed("cc", "-shared", "-fPIC", "-o", output, "-x", "c", "-", input=source)
    return output


def test_a_program_opens_many_files_with_variables_of_threads(scratch):
    """More than the loader keeps places for at first, most of them not touched."""
    one = compiled(scratch / "one.so", ANSWERS_5)
    for i in range(1, 151):
        shutil.copy(one, scratch / f"{i}.so")
    succeed(*RUN, sys.executable, "-c", MANY_FILES, scratch)


STATIC = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return puts(dlerror()), 1;
    void* more = dlopen(argv[1], RTLD_NOW);
    if (!more) return puts(dlerror()), 1;
    int count = 0;
    int init = ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0), counted = ((int (*)(int*))dlsym(cuda, "cuDeviceGetCount"))(&count);
    if (init || counted || count != 1) return printf("%d %d: %d devices\n", init, counted, count), 1;
    return ((int (*)(void))dlsym(more, "get"))() != 5;
}
"""
WANTS_ROOM = '__thread __attribute__((tls_model("initial-exec"))) int own[16] = {5}; int get(void) { return own[0]; }'


def test_a_static_program_opens_the_driver_and_has_room_for_another_librarys_variables(scratch):
    """It has a C library of its own, where the loader has little room for libraries' variables of threads."""
    room = compiled(scratch / "room.so", WANTS_ROOM)
    ran = run("cc", "-w", "-static", "-o", scratch / "static", written(scratch / "static.c", STATIC))
    if ran.status:
        pytest.skip(f"there is no libc.a: {ran.err.splitlines()[-1:]}")
    succeed(*RUN, *WITHOUT_THE_LIBRARY, scratch / "static", room)


def test_libraries_of_the_hosts_driver_are_not_opened(scratch):
    """They would wait for their own libcuda: a program does without them, also where the host's are to be seen."""
    names = "libnvcuvid.so.1", "libnvidia-encode.so.1"
    for name in names:
        compiled(scratch / name, ANSWERS_5)
    tries = f"""
import ctypes
for name in {names}:
    try: ctypes.CDLL(name)
    except OSError: continue
    raise SystemExit(f"{{name}} was opened")"""
    succeed(*RUN, sys.executable, "-c", tries, env={"LD_LIBRARY_PATH": scratch})


BY_THE_RUNTIMES_PATH = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
there, sent, back = ctypes.c_void_p(), bytes(range(256)) * 4096, ctypes.create_string_buffer(1 << 20)
for result in (cuda.cudaMalloc(ctypes.byref(there), ctypes.c_size_t(len(sent))), cuda.cudaMemcpy(there, sent, ctypes.c_size_t(len(sent)), 1),
               cuda.cudaMemcpy(back, there, ctypes.c_size_t(len(sent)), 2), cuda.cudaFree(there)):
    assert result == 0, result
assert back.raw[:len(sent)] == sent
"""


def test_nvidias_runtime_opened_by_its_path_is_ours():
    libraries = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64"
    runtimes = sorted(libraries.glob("libcudart.so.1?"))
    if not runtimes:
        pytest.skip(f"there is no libcudart.so in {libraries}")
    succeed(*RUN, sys.executable, "-c", BY_THE_RUNTIMES_PATH, runtimes[0])
