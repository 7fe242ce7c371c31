# SPDX-License-Identifier: Apache-2.0
"""CuPy. (How to run them: checks.py.)"""
import cupy as cp
import cupyx

from checks import Skipped, check, main


def random(*shape, dtype=cp.float32):
    return cp.random.standard_normal(shape).astype(dtype)


def total(*arrays):
    return [[float(cp.asarray(a, dtype=cp.float64).sum()), float(cp.abs(cp.asarray(a, dtype=cp.float64)).sum())] for a in arrays]


@check
def arrays():
    x = random(1000, 1000)
    return [total(x + 1, x * x, cp.sin(x), x.T, x[::3, 1::2]), float(x.max()), int(x.argmin())]


@check
def sort_and_scan():
    x = random(200_000)
    return [total(cp.sort(x)[::1000], cp.cumsum(x)[::1000]), cp.histogram(x, 20)[0].tolist()]


@check
def gemm():
    return [total(a @ a) for a in (random(300, 300), random(300, 300, dtype=cp.float64), random(300, 300, dtype=cp.float16))]


@check
def einsum():
    return total(cp.einsum("bij,bjk->bik", random(8, 32, 48), random(8, 48, 16)))


@check
def fft():
    x = random(64, 500)
    return [total(abs(cp.fft.fft(x)), abs(cp.fft.rfft2(x)), abs(cp.fft.fftn(random(16, 24, 20)))), total(cp.fft.ifft(cp.fft.fft(x)).real)]


@check
def linalg():
    a = random(80, 80, dtype=cp.float64)
    s = a @ a.T + 80 * cp.eye(80)
    return total(cp.linalg.solve(s, a), cp.linalg.inv(s), cp.linalg.cholesky(s), cp.linalg.svd(a, compute_uv=False), cp.linalg.eigvalsh(s), abs(cp.linalg.qr(a)[1]))


@check
def sparse():
    from cupyx.scipy import sparse as sp
    a = random(200, 200)
    a[a < 1] = 0
    m = sp.csr_matrix(a)
    return [total(m @ random(200), (m @ m).toarray()), m.nnz]


@check
def random_generators():
    g = cp.random.default_rng(5)
    return total(g.random(1000), g.integers(0, 100, 1000), cp.random.RandomState(3).normal(size=1000), cp.random.permutation(100)[:10])


@check
def raw_kernel():
    add = cp.RawKernel("""extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) c[i] = a[i] + 2 * b[i];
    }""", "add")
    a, b = random(1000), random(1000)
    c = cp.zeros_like(a)
    add((4,), (256,), (a, b, c, cp.int32(1000)))
    return total(c, c - a - 2 * b)


@check
def raw_module():
    module = cp.RawModule(code="""
    template <typename T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }
    __constant__ float table[4];
    extern "C" __global__ void look(float* x) { x[threadIdx.x] = table[threadIdx.x % 4]; }
    """, options=("-std=c++17",), name_expressions=["scale<float>", "scale<double>"])
    x, y = random(64), random(64, dtype=cp.float64)
    before = total(x, y)
    module.get_function("scale<float>")((1,), (64,), (x, cp.float32(3)))
    module.get_function("scale<double>")((1,), (64,), (y, cp.float64(3)))
    table = cp.ndarray(4, cp.float32, module.get_global("table"))
    table[:] = cp.arange(4)
    z = cp.zeros(64, cp.float32)
    module.get_function("look")((1,), (64,), (z,))
    return [before, total(x, y, z)]


@check
def elementwise_and_reduction():
    f = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_difference")
    r = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    a, b = random(1000), random(1000)
    return total(f(a, b), r(a))


@check
def pools():
    values = []
    for pool in (cp.cuda.MemoryPool(), cp.cuda.MemoryAsyncPool()):
        with cp.cuda.using_allocator(pool.malloc):
            x = random(100_000)
            values += total((x * 2).reshape(100, 1000).sum(0))
            del x
    pinned = cupyx.empty_pinned(1000, dtype=cp.float32)
    pinned[:] = 3
    return [values, total(cp.asarray(pinned))]


@check
def streams_and_events():
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    values = []
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    for i, s in enumerate(streams):
        with s:
            begin.record()
            x = cp.full(100_000, i, cp.float32)
            for _ in range(10):
                x = x * 1.5 + 1
            end.record()
        s.synchronize()
        values.append(total(x))
        assert cp.cuda.get_elapsed_time(begin, end) > 0
    return values


@check
def graph():
    s = cp.cuda.Stream(non_blocking=True)
    x = cp.ones(1000, cp.float32)
    with s:
        cp.multiply(x, 1, out=x)
        s.begin_capture()
        cp.multiply(x, 2, out=x)
        g = s.end_capture()
        for _ in range(5):
            g.launch()
    s.synchronize()
    return total(x)


@check
def managed():
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        x = random(10_000)
        y = x * 2
    return total(y, y - 2 * x)


@check
def textures():
    from cupy.cuda import texture
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, cp.cuda.runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 16, 8)
    array.copy_from(cp.arange(128, dtype=cp.float32).reshape(8, 16))
    obj = texture.TextureObject(texture.ResourceDescriptor(cp.cuda.runtime.cudaResourceTypeArray, cuArr=array),
                                texture.TextureDescriptor((cp.cuda.runtime.cudaAddressModeClamp,) * 2, cp.cuda.runtime.cudaFilterModePoint,
                                                          cp.cuda.runtime.cudaReadModeElementType))
    read = cp.RawKernel("""extern "C" __global__ void read(float* out, cudaTextureObject_t t) {
        out[threadIdx.y * 16 + threadIdx.x] = tex2D<float>(t, threadIdx.x, threadIdx.y) * 2;
    }""", "read")
    out = cp.zeros(128, cp.float32)
    read((1,), (16, 8), (out, obj))
    return total(out)


@check
def two_gpus():
    if cp.cuda.runtime.getDeviceCount() < 2:
        raise Skipped("one GPU")
    with cp.cuda.Device(0):
        a = random(1000)
    with cp.cuda.Device(1):
        b = cp.asarray(a) * 2
        sums = total(b)
    return [sums, total(a)]


if __name__ == "__main__":
    main(lambda: cp.random.seed(1), lambda: cp.cuda.Device().synchronize())
