# SPDX-License-Identifier: Apache-2.0
"""What writes kernels in Python: Triton, Numba, cuda-python. (How to run them: checks.py.)"""
import importlib
import tempfile

import numpy as np

from checks import Skipped, check, main


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Skipped(str(e)) from e


def in_a_file(text):
    """The functions of a Python text: Triton reads their source from a file."""
    import importlib.util
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
        f.write(text)
    spec = importlib.util.spec_from_file_location("kernels", f.name)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def total(*arrays):
    return [[float(a.double().sum()), float(a.double().abs().sum())] for a in arrays]


TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

@triton.jit
def softmax(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)

@triton.autotune(configs=[triton.Config({"M": 64, "N": 64, "K": 32}, num_warps=4), triton.Config({"M": 128, "N": 64, "K": 32}, num_warps=8)], key=["n"])
@triton.jit
def matmul(a, b, c, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rm, rn, rk = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, n, K):
        acc += tl.dot(tl.load(a + rm[:, None] * n + (k + rk)[None, :]), tl.load(b + (k + rk)[:, None] * n + rn[None, :]))
    tl.store(c + rm[:, None] * n + rn[None, :], acc.to(tl.float16))

@triton.jit
def layer_norm(x, y, w, b, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    mean = tl.sum(v, axis=0) / n
    d = tl.where(at < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, axis=0) / n + 1e-5)
    tl.store(y + row * n + at, d * scale * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)

@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)
"""


def triton_kernels():
    module("triton")
    torch = module("torch")
    torch.manual_seed(1)
    return in_a_file(TRITON), torch


@check
def triton_add():
    k, torch = triton_kernels()
    x, y = torch.randn(98432, device="cuda"), torch.randn(98432, device="cuda")
    out = torch.empty_like(x)
    k.add[(97,)](x, y, out, x.numel(), BLOCK=1024)
    return total(out, out - x - y)


@check
def triton_softmax():
    k, torch = triton_kernels()
    x = torch.randn(200, 781, device="cuda")
    out = torch.empty_like(x)
    k.softmax[(200,)](out, x, x.stride(0), 781, BLOCK=1024)
    return total(out, (out - torch.softmax(x, 1)).abs() > 1e-5)


@check
def triton_matmul():
    k, torch = triton_kernels()
    a, b = torch.randn(512, 512, device="cuda").half(), torch.randn(512, 512, device="cuda").half()
    c = torch.empty_like(a)
    k.matmul[lambda m: (512 // m["M"], 512 // m["N"])](a, b, c, 512)
    return total(c, (c - a @ b).abs() > 0.5)


@check
def triton_layer_norm():
    k, torch = triton_kernels()
    x, w, b = torch.randn(100, 300, device="cuda"), torch.randn(300, device="cuda"), torch.randn(300, device="cuda")
    y = torch.empty_like(x)
    k.layer_norm[(100,)](x, y, w, b, 300, BLOCK=512)
    return total(y)


@check
def triton_dropout():
    k, torch = triton_kernels()
    x = torch.ones(10_000, device="cuda")
    out = torch.empty_like(x)
    k.dropout[(10,)](x, out, 10_000, 0.3, 123, BLOCK=1024)
    return total(out)


@check
def numba_kernels():
    cuda = module("numba.cuda")

    @cuda.jit
    def scale(x, by):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= by

    @cuda.jit
    def block_sums(x, out):
        shared = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        shared[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        s = 64
        while s:
            if t < s:
                shared[t] += shared[t + s]
            cuda.syncthreads()
            s //= 2
        if t == 0:
            cuda.atomic.add(out, 0, shared[0])
    x = cuda.to_device(np.arange(1024, dtype=np.float32))
    scale[8, 128](x, np.float32(0.5))
    out = cuda.to_device(np.zeros(1, np.float32))
    block_sums[8, 128](x, out)
    stream = cuda.stream()
    pinned = cuda.pinned_array(1024, np.float32)
    x.copy_to_host(pinned, stream=stream)
    stream.synchronize()
    return [float(pinned.sum()), float(out.copy_to_host()[0])]


@check
def cuda_bindings_driver():
    driver, nvrtc = module("cuda.bindings.driver"), module("cuda.bindings.nvrtc")

    def ok(result):
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) == 2 else result[1:]
    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    ok(driver.cuCtxSetCurrent(context))
    program = ok(nvrtc.nvrtcCreateProgram(b"extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }", b"t.cu", 0, [], []))
    major = ok(driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    ok(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    size = ok(nvrtc.nvrtcGetCUBINSize(program))
    code = b" " * size
    ok(nvrtc.nvrtcGetCUBIN(program, code))
    kernel = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(code)), b"twice"))
    x = np.arange(32, dtype=np.float32)
    memory = ok(driver.cuMemAlloc(x.nbytes))
    ok(driver.cuMemcpyHtoD(memory, x.ctypes.data, x.nbytes))
    argument = np.array([int(memory)], dtype=np.uint64)
    pointers = np.array([argument.ctypes.data], dtype=np.uint64)
    ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, pointers.ctypes.data, 0))
    ok(driver.cuCtxSynchronize())
    ok(driver.cuMemcpyDtoH(x.ctypes.data, memory, x.nbytes))
    return float(x.sum())


@check
def cuda_core():
    core = module("cuda.core")
    if not hasattr(core, "Device"):
        core = module("cuda.core.experimental")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    program = core.Program("extern \"C\" __global__ void add(float* x, float y) { x[blockIdx.x * blockDim.x + threadIdx.x] += y; }", "c++",
                           core.ProgramOptions(std="c++17", arch="sm_" + "".join(str(i) for i in device.compute_capability)))
    kernel = program.compile("cubin").get_kernel("add")
    cp = module("cupy")
    x = cp.arange(256, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    core.launch(stream, core.LaunchConfig(grid=2, block=128), kernel, x.data.ptr, np.float32(1))
    stream.sync()
    return float(x.sum())


if __name__ == "__main__":
    main()
