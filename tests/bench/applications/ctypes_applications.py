# SPDX-License-Identifier: Apache-2.0
"""The driver by ctypes, with no framework: what runs wherever Python does, on the software GPU, too. (How to run them: application.py.)"""
import ctypes
import sys
import threading
import time

from application import CPU, application, main

if CPU:
    print("ctypes is left out: it has no use without a GPU", file=sys.stderr)
    sys.exit(77)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    print(f"ctypes is left out: {e}", file=sys.stderr)
    sys.exit(77)

DOUBLE = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 numbers)
{
    .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [numbers];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd3], %f2;
    ret;
}
"""


def call(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    if error:
        raise RuntimeError(f"{name}: error {error}")


@application(steps=3, per=100, unit="us", warm=1, emulated=True)
def copy_kernel_copy():
    """1 MiB of numbers to the GPU, a kernel that doubles them, and back."""
    count, threads = 1 << 18, 256
    numbers = (ctypes.c_float * count)(*(i % 1000 for i in range(count)))
    back = (ctypes.c_float * count)()
    module, kernel, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuModuleLoadData", ctypes.byref(module), DOUBLE)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"twice")
    call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(4 * count))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(device))

    def step():
        for _ in range(100):
            call("cuMemcpyHtoD_v2", device, numbers, ctypes.c_size_t(4 * count))
            call("cuLaunchKernel", kernel, count // threads, 1, 1, threads, 1, 1, 0, None, parameters, None)
            call("cuMemcpyDtoH_v2", back, device, ctypes.c_size_t(4 * count))
    return step, lambda: [sum(back), back[1], back[count - 1]]


@application(steps=1, unit="us", warm=1)
def serving_p99():
    """Four threads answer requests, each in a stream of its own: 4 KiB to the GPU, twelve kernels, and 4 KiB back. Beside them another thread
    loads code and unloads it, as a server does that gets another model. The 99th percentile of how long a request takes."""
    count, threads, requests, kernels = 1024, 4, 100, 12
    context = ctypes.c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(context))
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), DOUBLE)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"twice")
    results = [None] * threads

    class Lane:
        def __init__(self, number):
            self.stream, self.device, self.host = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
            call("cuStreamCreate", ctypes.byref(self.stream), 1)
            call("cuMemAlloc_v2", ctypes.byref(self.device), ctypes.c_size_t(4 * count))
            call("cuMemHostAlloc", ctypes.byref(self.host), ctypes.c_size_t(4 * count), 0)
            self.numbers = (ctypes.c_float * count).from_address(self.host.value)
            self.parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.device))
            self.number, self.took = number, []

        def serve(self):
            call("cuCtxSetCurrent", context)
            self.took = []
            for _ in range(requests):
                self.numbers[1] = self.number + 1
                begun = time.perf_counter()
                call("cuMemcpyHtoDAsync_v2", self.device, self.host, ctypes.c_size_t(4 * count), self.stream)
                for _ in range(kernels):
                    call("cuLaunchKernel", kernel, count // 256, 1, 1, 256, 1, 1, 0, self.stream, self.parameters, None)
                call("cuMemcpyDtoHAsync_v2", self.host, self.device, ctypes.c_size_t(4 * count), self.stream)
                call("cuStreamSynchronize", self.stream)
                self.took.append(time.perf_counter() - begun)
            results[self.number] = self.numbers[1]

    lanes = [Lane(number) for number in range(threads)]

    def load(served):
        call("cuCtxSetCurrent", context)
        while not served.wait(0.02):
            other, function = ctypes.c_void_p(), ctypes.c_void_p()
            call("cuModuleLoadData", ctypes.byref(other), DOUBLE)
            call("cuModuleGetFunction", ctypes.byref(function), other, b"twice")
            call("cuModuleUnload", other)

    def step():
        served = threading.Event()
        loader = threading.Thread(target=load, args=[served])
        servers = [threading.Thread(target=lane.serve) for lane in lanes]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # threads give each other way between calls, not after 5 ms
        for thread in (loader, *servers):
            thread.start()
        for thread in servers:
            thread.join()
        served.set()
        loader.join()
        sys.setswitchinterval(before)
        return [took for lane in lanes for took in lane.took]
    return step, lambda: results


def name():
    device, context, text = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(256)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", text, 256, device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    return text.value.decode()


main(name(), lambda: call("cuCtxSynchronize"))
