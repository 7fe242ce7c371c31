# SPDX-License-Identifier: Apache-2.0
"""CuPy. (How to run them: application.py.)"""
import sys

from application import CPU, application, main

try:
    import cupy as cp
    import numpy as np
except ImportError as e:
    print(f"CuPy is left out: {e}", file=sys.stderr)
    sys.exit(77)
if CPU:
    print("CuPy is left out: it has no use without a GPU", file=sys.stderr)
    sys.exit(77)


@application(steps=5, per=50, unit="us", warm=1, emulated=True)
def fft_1M():
    """64 transforms of 16,384 complex numbers."""
    x = (cp.random.standard_normal((64, 16384)) + 1j).astype(cp.complex64)
    y = [x]

    def step():
        for _ in range(50):
            y[0] = cp.fft.fft(x)
    return step, lambda: [float(cp.abs(y[0]).mean())]


@application(steps=10, unit="ms", emulated=True)
def sort_16M():
    x = cp.random.random_sample(1 << 24, dtype=cp.float32)
    y = [x]

    def step():
        y[0] = cp.sort(x)
    return step, lambda: [float(y[0][i]) for i in (0, 1 << 20, -1)]


@application(steps=3, per=300, unit="us", warm=1, emulated=True)
def stencil_step():
    """Heat on 512 x 4096 cells. Its outer rows go to the host after each step, and come back as the other end's neighbors, as if by a network."""
    rows, columns = 512, 4096
    heat = cp.RawKernel(r"""
        extern "C" __global__ void heat(const float* from, float* to, int rows, int columns) {
            const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y + 1;
            if (x >= columns || y > rows) return;
            const float* row = from + (long long)y * columns;
            const int left = (x + columns - 1) % columns, right = (x + 1) % columns;
            to[(long long)y * columns + x] = 0.25f * (row[left] + row[right] + row[x - columns] + row[x + columns]);
        }""", "heat")
    grids = [cp.random.random_sample((rows + 2, columns), dtype=cp.float32) for _ in range(2)]
    top, bottom = np.empty(columns, np.float32), np.empty(columns, np.float32)

    def step():
        for _ in range(300):
            from_, to = grids
            heat(((columns + 255) // 256, rows), (256,), (from_, to, np.int32(rows), np.int32(columns)))
            to[1].get(out=top)
            to[rows].get(out=bottom)
            to[0].set(bottom)
            to[rows + 1].set(top)
            grids.reverse()
    return step, lambda: [float(grids[0].mean()), float(grids[0].std())]


@application(steps=3, per=300, unit="us", warm=1, emulated=True)
def small_array():
    """32 KiB of numbers that numpy makes, to the GPU, and what came of them back."""
    sums = [0.0]

    def step():
        for i in range(300):
            x = cp.asarray(np.full(8192, i, np.float32))
            sums[0] += float((x * 2).get()[0])
    return step, lambda: sums


def name():
    told = cp.cuda.runtime.getDeviceProperties(0)["name"]
    return told.decode() if isinstance(told, bytes) else told


main(name(), lambda: cp.cuda.Device().synchronize(), lambda: cp.random.seed(1))
