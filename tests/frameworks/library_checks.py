# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries by themselves, called through ctypes as a C program would. (How to run them: checks.py.)"""
import ctypes
import glob
import os
import site
import sys

import numpy as np

from checks import Skipped, check, main

COPY_TO_DEVICE, COPY_TO_HOST = 1, 2


def library(*names):
    """The first that opens: of the wheels, of the toolkit, by the loader's own search."""
    folders = [f for root in [*site.getsitepackages(), *sys.path] for f in glob.glob(os.path.join(root, "nvidia", "*", "lib"))]
    folders += glob.glob("/usr/local/cuda*/lib64") + ["/usr/lib/x86_64-linux-gnu"]
    for name in names:
        for path in [os.path.join(f, name) for f in folders] + [name]:
            if "/" not in path or os.path.exists(path):
                try:
                    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                except OSError:
                    continue
    raise Skipped(f"no {names[0]}")


def runtime():
    return library("libcudart.so.13", "libcudart.so.12")


def ok(status, what):
    if status:
        raise RuntimeError(f"{what}: status {status}")


class Memory:
    """Device memory with the contents of an array."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.address = ctypes.c_void_p()
        ok(runtime().cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(self.array.nbytes)), "cudaMalloc")
        ok(runtime().cudaMemcpy(self.address, self.array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.array.nbytes), COPY_TO_DEVICE), "cudaMemcpy")

    def read(self):
        out = np.empty_like(self.array)
        ok(runtime().cudaMemcpy(out.ctypes.data_as(ctypes.c_void_p), self.address, ctypes.c_size_t(out.nbytes), COPY_TO_HOST), "cudaMemcpy")
        return out


def random(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def total(a):
    return [float(np.sum(a, dtype=np.float64)), float(np.sum(np.abs(a), dtype=np.float64))]


def sgemm():
    blas, handle = library("libcublas.so.13", "libcublas.so.12"), ctypes.c_void_p()
    ok(blas.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    n = 128
    a, c = Memory(random(n, n)), Memory(np.zeros((n, n), np.float32))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    ok(blas.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), a.address, n, a.address, n, ctypes.byref(zero), c.address, n), "cublasSgemm")
    values = total(c.read())
    ok(blas.cublasDestroy_v2(handle), "cublasDestroy")
    return values


@check
def cublas():
    return sgemm()


@check
def cublas_reset_cublas():
    before = sgemm()
    ok(runtime().cudaDeviceReset(), "cudaDeviceReset")
    return [before, sgemm()]


@check
def cublaslt():
    """relu(A * B) as cuBLASLt's own choice of an algorithm does it."""
    lt, handle, n = library("libcublasLt.so.13", "libcublasLt.so.12"), ctypes.c_void_p(), 96
    ok(lt.cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    matmul, layout, relu = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(2)
    ok(lt.cublasLtMatmulDescCreate(ctypes.byref(matmul), 68, 0), "cublasLtMatmulDescCreate")  # CUBLAS_COMPUTE_32F, CUDA_R_32F
    ok(lt.cublasLtMatmulDescSetAttribute(matmul, 7, ctypes.byref(relu), ctypes.c_size_t(4)), "cublasLtMatmulDescSetAttribute")  # the epilogue
    ok(lt.cublasLtMatrixLayoutCreate(ctypes.byref(layout), 0, ctypes.c_uint64(n), ctypes.c_uint64(n), ctypes.c_int64(n)), "cublasLtMatrixLayoutCreate")
    a, c = Memory(random(n, n)), Memory(np.zeros((n, n), np.float32))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    ok(lt.cublasLtMatmul(handle, matmul, ctypes.byref(one), a.address, layout, a.address, layout, ctypes.byref(zero), c.address, layout, c.address, layout,
                         None, None, ctypes.c_size_t(0), None), "cublasLtMatmul")
    values = total(c.read())
    ok(lt.cublasLtDestroy(handle), "cublasLtDestroy")
    return values


@check
def cufft():
    fft, plan = library("libcufft.so.12", "libcufft.so.11"), ctypes.c_int()
    ok(fft.cufftPlan1d(ctypes.byref(plan), 1000, 0x29, 4), "cufftPlan1d")
    x = Memory(random(4, 1000).astype(np.complex64))
    ok(fft.cufftExecC2C(plan, x.address, x.address, -1), "cufftExecC2C")
    values = total(np.abs(x.read()))
    ok(fft.cufftDestroy(plan), "cufftDestroy")
    return values


@check
def cufft_reset_cufft():
    before = cufft()
    ok(runtime().cudaDeviceReset(), "cudaDeviceReset")
    return [before, cufft()]


@check
def curand():
    rand, generator = library("libcurand.so.10"), ctypes.c_void_p()
    ok(rand.curandCreateGenerator(ctypes.byref(generator), 100), "curandCreateGenerator")
    ok(rand.curandSetPseudoRandomGeneratorSeed(generator, ctypes.c_ulonglong(5)), "seed")
    x = Memory(np.zeros(1000, np.float32))
    ok(rand.curandGenerateUniform(generator, x.address, ctypes.c_size_t(1000)), "curandGenerateUniform")
    return total(x.read())


@check
def cusolver():
    solver, handle, n = library("libcusolver.so.12", "libcusolver.so.11"), ctypes.c_void_p(), 64
    ok(solver.cusolverDnCreate(ctypes.byref(handle)), "cusolverDnCreate")
    a = random(n, n, dtype=np.float64)
    s = Memory(a @ a.T + n * np.eye(n))
    size = ctypes.c_int()
    ok(solver.cusolverDnDpotrf_bufferSize(handle, 0, n, s.address, n, ctypes.byref(size)), "bufferSize")
    work, info = Memory(np.zeros(max(size.value, 1))), Memory(np.zeros(1, np.int32))
    ok(solver.cusolverDnDpotrf(handle, 0, n, s.address, n, work.address, size, info.address), "cusolverDnDpotrf")
    return [total(s.read()), int(info.read()[0])]


@check
def cusparse():
    sparse, handle = library("libcusparse.so.12"), ctypes.c_void_p()
    ok(sparse.cusparseCreate(ctypes.byref(handle)), "cusparseCreate")
    version = ctypes.c_int()
    ok(sparse.cusparseGetVersion(handle, ctypes.byref(version)), "cusparseGetVersion")
    x, y = Memory(random(50)), Memory(np.zeros(100, np.float32))
    at = Memory(np.arange(0, 100, 2, dtype=np.int32))
    vector, dense = ctypes.c_void_p(), ctypes.c_void_p()
    ok(sparse.cusparseCreateSpVec(ctypes.byref(vector), ctypes.c_int64(100), ctypes.c_int64(50), at.address, x.address, 2, 0, 0), "cusparseCreateSpVec")
    ok(sparse.cusparseCreateDnVec(ctypes.byref(dense), ctypes.c_int64(100), y.address, 0), "cusparseCreateDnVec")
    ok(sparse.cusparseScatter(handle, vector, dense), "cusparseScatter")
    return [version.value, total(y.read())]


@check
def nvrtc():
    rtc, program = library("libnvrtc.so.13", "libnvrtc.so.12"), ctypes.c_void_p()
    ok(rtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void k(int* x) { *x = 1; }", b"k.cu", 0, None, None), "nvrtcCreateProgram")
    ok(rtc.nvrtcCompileProgram(program, 0, None), "nvrtcCompileProgram")
    size = ctypes.c_size_t()
    ok(rtc.nvrtcGetPTXSize(program, ctypes.byref(size)), "nvrtcGetPTXSize")
    return size.value > 100


@check
def nvjpeg():
    jpeg, handle, state = library("libnvjpeg.so.13", "libnvjpeg.so.12"), ctypes.c_void_p(), ctypes.c_void_p()
    ok(jpeg.nvjpegCreateSimple(ctypes.byref(handle)), "nvjpegCreateSimple")
    ok(jpeg.nvjpegJpegStateCreate(handle, ctypes.byref(state)), "nvjpegJpegStateCreate")
    try:
        import io

        from PIL import Image
    except ImportError as e:
        raise Skipped(str(e)) from e
    packed = io.BytesIO()
    Image.fromarray((np.arange(64 * 48 * 3) % 251).astype(np.uint8).reshape(48, 64, 3)).save(packed, "JPEG", quality=90)
    data = packed.getvalue()
    out = Memory(np.zeros((48, 64, 3), np.uint8))

    class Image_(ctypes.Structure):
        _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]
    image = Image_()
    image.channel[0], image.pitch[0] = out.address.value, 64 * 3
    ok(jpeg.nvjpegDecode(handle, state, data, ctypes.c_size_t(len(data)), 5, ctypes.byref(image), None), "nvjpegDecode")
    ok(runtime().cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    return total(out.read())


@check
def npp():
    core, arithmetic = library("libnppc.so.13", "libnppc.so.12"), library("libnppial.so.13", "libnppial.so.12")
    del core
    a, b, out = Memory(np.arange(256, dtype=np.uint8).reshape(16, 16)), Memory(np.full((16, 16), 3, np.uint8)), Memory(np.zeros((16, 16), np.uint8))
    if not hasattr(arithmetic, "nppiAdd_8u_C1RSfs"):
        raise Skipped("this NPP wants a context")

    class Size(ctypes.Structure):
        _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]
    ok(arithmetic.nppiAdd_8u_C1RSfs(a.address, 16, b.address, 16, out.address, 16, Size(16, 16), 0), "nppiAdd")
    return total(out.read())


if __name__ == "__main__":
    main()
