# SPDX-License-Identifier: Apache-2.0
"""collectives.py: NCCL's all-reduce, all-gather, all-to-all and send with receive, called as a C program would (by ctypes, no framework), on
floats whose results are known. Run by ranks.py: as one rank with --gpus N it has N GPUs in one process, in NCCL's groups; as one of several ranks, a GPU each.

    python3 ranks.py [--ranks N] collectives.py [--gpus N] [--small] [--quick]

A row is a bus bandwidth, by NCCL's own definition: what a link carries, whatever the number of GPUs. The size is that of the larger of a GPU's two
buffers. On one GPU, where no link carries anything, and with --small (8 bytes to 1 MiB) it is a time: the median of several runs. NVLink's multicast
stays off (NCCL_NVLS_ENABLE=0).
"""
import array
import ctypes
import glob
import json
import os
import statistics
import sys
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"
PERIOD = 1021  # floats; a prime, so that each GPU's part begins at another place of it
FLOAT, SUM, FLOAT_BYTES = 7, 0, 4  # ncclFloat32, ncclSum
libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def library(*names):
    last = None
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as e:
            last = e
    print(f"NCCL is left out: {last}", file=sys.stderr)
    sys.exit(77)


def of_packages(pattern):
    return [file for folder in sys.path if folder for file in glob.glob(os.path.join(folder, pattern))]


cuda = library("libcuda.so.1")
nccl = library(*of_packages("nvidia/nccl/lib/libnccl.so.2"), *of_packages("torch/lib/libnccl.so.2"), "libnccl.so.2")
nccl.ncclGetErrorString.restype = ctypes.c_char_p


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def driver(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    if error:
        raise RuntimeError(f"{name}: error {error}")


def call(name, *arguments):
    error = getattr(nccl, name)(*arguments)
    if error:
        raise RuntimeError(f"{name}: {nccl.ncclGetErrorString(error).decode()}")


size_t, u64, pointer = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p


# ---- one GPU of them -------------------------------------------------------------------------------------------------
class Gpu:
    """A rank, on a device: two buffers and a stream."""

    def __init__(self, device, rank, most):
        self.rank, self.communicator, self.context = rank, pointer(), pointer()
        handle = ctypes.c_int()
        driver("cuDeviceGet", ctypes.byref(handle), device)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)
        self.use()
        self.stream, self.send, self.receive = pointer(), u64(), u64()
        driver("cuStreamCreate", ctypes.byref(self.stream), 1)  # that waits for no default stream
        driver("cuMemAlloc_v2", ctypes.byref(self.send), size_t(most))
        driver("cuMemAlloc_v2", ctypes.byref(self.receive), size_t(most))
        self.fill(most // FLOAT_BYTES)
        self.host = ctypes.create_string_buffer(min(most, PERIOD << 16))

    def use(self):
        driver("cuCtxSetCurrent", self.context)

    def fill(self, floats):
        """Number i of rank r is i % PERIOD + 1000 r."""
        block = array.array("f", [i % PERIOD + 1000 * self.rank for i in range(min(PERIOD, floats))])
        driver("cuMemcpyHtoD_v2", self.send, pointer(block.buffer_info()[0]), size_t(len(block) * FLOAT_BYTES))
        done = len(block)
        while done < floats:
            some = min(done, floats - done)
            driver("cuMemcpyDtoD_v2", u64(self.send.value + done * FLOAT_BYTES), self.send, size_t(some * FLOAT_BYTES))
            done += some
        driver("cuCtxSynchronize")

    def clear(self, floats):
        driver("cuMemsetD32_v2", self.receive, ctypes.c_uint(0), size_t(floats))
        driver("cuCtxSynchronize")

    def is_wrong(self, begin, floats, phase, scale, base):
        """Received numbers from `begin` on are not scale * ((i + phase) % PERIOD) + base."""
        right = array.array("f", [scale * ((i + phase) % PERIOD) + base for i in range(min(PERIOD, floats))])
        at, left, chunk = begin * FLOAT_BYTES, floats * FLOAT_BYTES, PERIOD << 16
        while left > 0:
            some = min(left, chunk)
            driver("cuMemcpyDtoH_v2", self.host, u64(self.receive.value + at), size_t(some))
            first, period = ctypes.addressof(self.host), PERIOD * FLOAT_BYTES
            if libc.memcmp(first, right.buffer_info()[0], min(some, period)) or (some > period and libc.memcmp(first, first + period, some - period)):
                return 1
            at, left = at + some, left - some
        return 0

    def wait(self):
        self.use()
        driver("cuStreamSynchronize", self.stream)


# ---- what they do together -------------------------------------------------------------------------------------------
def all_reduce(gpu, ranks, floats):
    call("ncclAllReduce", gpu.send, gpu.receive, size_t(floats), FLOAT, SUM, gpu.communicator, gpu.stream)


def all_gather(gpu, ranks, floats):
    call("ncclAllGather", gpu.send, gpu.receive, size_t(floats // ranks), FLOAT, gpu.communicator, gpu.stream)


def all_to_all(gpu, ranks, floats):
    part = floats // ranks
    for peer in range(ranks):
        at = peer * part * FLOAT_BYTES
        call("ncclSend", u64(gpu.send.value + at), size_t(part), FLOAT, peer, gpu.communicator, gpu.stream)
        call("ncclRecv", u64(gpu.receive.value + at), size_t(part), FLOAT, peer, gpu.communicator, gpu.stream)


def send_receive(gpu, ranks, floats):
    """Each sends to the next, and receives from the one before."""
    call("ncclSend", gpu.send, size_t(floats), FLOAT, (gpu.rank + 1) % ranks, gpu.communicator, gpu.stream)
    call("ncclRecv", gpu.receive, size_t(floats), FLOAT, (gpu.rank - 1) % ranks, gpu.communicator, gpu.stream)


def wrong(what, gpu, ranks, floats):
    part = floats // ranks
    if what is send_receive:
        return gpu.is_wrong(0, floats, 0, 1, 1000 * ((gpu.rank - 1) % ranks))
    if what is all_reduce:
        return gpu.is_wrong(0, floats, 0, ranks, 1000 * ranks * (ranks - 1) // 2)
    phase = gpu.rank * part % PERIOD if what is all_to_all else 0
    return sum(gpu.is_wrong(peer * part, part, phase, 1, 1000 * peer) for peer in range(ranks))


LINK = {all_reduce: lambda n: 2 * (n - 1) / n, all_gather: lambda n: (n - 1) / n, all_to_all: lambda n: (n - 1) / n, send_receive: lambda n: 1}


def once(what, gpus, ranks, floats):
    call("ncclGroupStart")
    for gpu in gpus:
        what(gpu, ranks, floats)
    call("ncclGroupEnd")


def measured(what, gpus, ranks, size, quick, runs):
    """Seconds for one call (the median of `runs`), and the number of wrong parts of the result."""
    floats = size // FLOAT_BYTES // ranks * ranks
    for gpu in gpus:
        gpu.use()
        gpu.clear(floats)
    times = 2 if quick else 50 if size <= 1 << 20 else 10 if size <= 1 << 26 else 4
    for _ in range(3):
        once(what, gpus, ranks, floats)
    for gpu in gpus:
        gpu.wait()
    seconds, bad = [], 0
    for _ in range(runs):
        begun = time.perf_counter()
        for _ in range(times):
            once(what, gpus, ranks, floats)
        for gpu in gpus:
            gpu.wait()
        seconds.append((time.perf_counter() - begun) / times)
    for gpu in gpus:
        gpu.use()
        bad += wrong(what, gpu, ranks, floats)
    return statistics.median(seconds), bad


def words(size):
    return next(f"{size >> bits}{unit}" for bits, unit in ((30, "G"), (20, "M"), (10, "K"), (0, "B")) if size >> bits)


# ---- the program -----------------------------------------------------------------------------------------------------
def connect(gpus, rank, ranks):
    if len(gpus) > 1 or ranks == 1:
        communicators = (pointer * len(gpus))()
        call("ncclCommInitAll", communicators, len(gpus), (ctypes.c_int * len(gpus))(*range(len(gpus))))
        for gpu, communicator in zip(gpus, communicators):
            gpu.communicator = pointer(communicator)
        return
    unique, file = UniqueId(), os.path.join(os.environ["MEET"], "unique")
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(unique))
        with open(file + ".new", "wb") as f:
            f.write(bytes(unique))
        os.rename(file + ".new", file)
    while not os.path.exists(file):  # ranks.py ends those that wait in vain
        time.sleep(0.01)
    with open(file, "rb") as f:
        unique = UniqueId.from_buffer_copy(f.read())
    gpus[0].use()
    call("ncclCommInitRank", ctypes.byref(gpus[0].communicator), ranks, unique, rank)


def main():
    quick, together, small = "--quick" in sys.argv, "--gpus" in sys.argv, "--small" in sys.argv
    rank, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("RANKS", 1))
    here = int(sys.argv[sys.argv.index("--gpus") + 1]) if together else 1
    ranks, name = here * processes, "nccl_" + ("one_process" if together else "processes")
    first, last, step = (3, 21, 1) if small else (10, 31, 2)
    sizes = [1 << bits for bits in range(first, min(last, 21) if quick else last, 5 if quick else step)]
    driver("cuInit", 0)
    gpus = [Gpu(rank + i, rank + i, sizes[-1]) for i in range(here)]
    connect(gpus, rank, ranks)
    bad = 0
    for what in LINK:
        for size in sizes:
            seconds, some = measured(what, gpus, ranks, max(size, FLOAT_BYTES * ranks), quick, 1 if quick or not small else 5)
            bad += some
            row = {"metric": f"{name}_{what.__name__}_{words(size)}", "unit": "GB/s", "value": size * LINK[what](ranks) / seconds / 1e9}
            if ranks == 1 or small:
                row.update(metric=row["metric"] + "_time", unit="us", value=seconds * 1e6)
            print(json.dumps(row), flush=True)
    print(json.dumps({"metric": name + "_wrong", "unit": "results", "value": bad}), flush=True)
    for gpu in gpus:
        call("ncclCommDestroy", gpu.communicator)
    if bad:
        print(f"{bad} results are wrong", file=sys.stderr)
    sys.exit(3 if bad and rank else 0)  # rank 0's are a row


main()
