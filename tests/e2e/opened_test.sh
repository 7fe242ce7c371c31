#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that is not started with the library in front opens it by the driver's name when it wants CUDA, as ctypes does.
. "$(dirname "$0")/lib.sh"
need python3
$run -- env -u LD_PRELOAD python3 -c '
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
assert back.raw[:len(sent)] == sent' || fail "a program that opens libcuda.so.1"
echo passed
