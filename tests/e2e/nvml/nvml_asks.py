# SPDX-License-Identifier: Apache-2.0
"""A program that asks NVML, without packages, for test_nvml.py: nvml_asks.py PART [WORD...]. It fails with an assertion."""
import ctypes
import os
import subprocess
import sys
import time

nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlErrorString.restype = ctypes.c_char_p
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE = 1, 2, 3, 4, 6, 7


class Memory(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in ("total", "free", "used")]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


def ask(name, *given, expect=0):
    status = getattr(nvml, name)(*given)
    assert status == expect, f"{name}: {nvml.nvmlErrorString(status).decode()}, not {expect}"


def handle(i):
    device = ctypes.c_void_p()
    ask("nvmlDeviceGetHandleByIndex_v2", i, ctypes.byref(device))
    return device


def text(name, *given):
    buffer = ctypes.create_string_buffer(96)
    ask(name, *given, buffer, 96)
    return buffer.value.decode()


def number(name, *given, expect=0):
    value = ctypes.c_uint()
    ask(name, *given, ctypes.byref(value), expect=expect)
    return value.value


def processes(device):
    found, count = (Process * 64)(), ctypes.c_uint(64)
    ask("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found)
    return {p.pid: p.used for p in found[:count.value]}


def wait(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "never seen"
        time.sleep(0.05)


def opened():
    """The devices of the software GPU that the test has made: two."""
    ask("nvmlInit_v2")
    assert number("nvmlDeviceGetCount_v2") == 2
    return [handle(0), handle(1)]


def devices():
    number("nvmlDeviceGetCount_v2", expect=UNINITIALIZED)
    both = opened()
    ask("nvmlDeviceGetHandleByIndex_v2", 2, ctypes.byref(ctypes.c_void_p()), expect=INVALID_ARGUMENT)
    uuids = [text("nvmlDeviceGetUUID", d) for d in both]
    assert len(set(uuids)) == 2 and all(u.startswith("GPU-") for u in uuids), uuids
    assert "software" in text("nvmlDeviceGetName", both[0])
    found = ctypes.c_void_p()
    for bus in b"0000:BB:00.0", b"00000000:bb:00.0", b"BB:00.0":
        ask("nvmlDeviceGetHandleByPciBusId_v2", bus, ctypes.byref(found))
        assert found.value == both[1].value
    ask("nvmlDeviceGetHandleByPciBusId_v2", b"0000:01:00.0", ctypes.byref(found), expect=NOT_FOUND)
    ask("nvmlDeviceGetHandleByUUID", uuids[1].encode(), ctypes.byref(found))
    assert found.value == both[1].value
    assert number("nvmlDeviceGetP2PStatus", both[0], both[1], 0) == 0


def refusals():
    """What software does not have; what a guest is not served; what no guest may do; what makes no sense."""
    device = opened()[0]
    number("nvmlDeviceGetTemperature", device, 0, expect=NOT_SUPPORTED)
    number("nvmlDeviceGetFanSpeed", device, expect=NOT_SUPPORTED)
    ask("nvmlDeviceGetAccountingStats", device, 1, None, expect=NOT_SUPPORTED)
    for setter in "nvmlDeviceSetPowerManagementLimit", "nvmlDeviceSetPersistenceMode", "nvmlDeviceSetComputeMode":
        ask(setter, device, 1, expect=NO_PERMISSION)
    ask("nvmlDeviceResetGpuLockedClocks", device, expect=NO_PERMISSION)
    number("nvmlDeviceGetClockInfo", device, 4, expect=INVALID_ARGUMENT)
    number("nvmlDeviceGetClockInfo", ctypes.c_void_p(1), 0, expect=INVALID_ARGUMENT)


def client(program, library):
    """A client appears with its own pid, its memory and its work, on its device alone, and disappears."""
    first, second = opened()
    assert processes(first) == {} and processes(second) == {}
    memory = Memory()
    child = subprocess.Popen([program, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ, LD_PRELOAD=library))
    try:
        size = int(child.stdout.readline())
        wait(lambda: processes(second).get(child.pid, 0) >= size)
        ask("nvmlDeviceGetMemoryInfo", second, ctypes.byref(memory))
        assert size <= memory.used <= memory.total, memory.used  # of all processes that use a software GPU of this machine
        assert memory.free == memory.total - memory.used
        name = text("nvmlSystemGetProcessName", child.pid)
        assert name == program, name
        rates = (ctypes.c_uint * 2)()

        def busy():
            ask("nvmlDeviceGetUtilizationRates", second, rates)
            return rates[0]
        child.stdin.write(b"work\n")
        child.stdin.flush()
        wait(lambda: busy() > 0)
        assert rates[0] <= 100, rates[0]
        few = ctypes.c_uint(0)
        ask("nvmlDeviceGetComputeRunningProcesses_v3", second, ctypes.byref(few), None, expect=INSUFFICIENT_SIZE)
        assert few.value == 1, few.value
    finally:
        child.kill()
        child.wait()
    wait(lambda: processes(second) == {})


def visible():
    """CUDA_VISIBLE_DEVICES is CUDA's. NVML is open until it was closed as often as opened."""
    opened()
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    assert number("nvmlDeviceGetCount_v2") == 2
    ask("nvmlInit_v2")
    ask("nvmlShutdown")
    assert number("nvmlDeviceGetCount_v2") == 2
    ask("nvmlShutdown")
    number("nvmlDeviceGetCount_v2", expect=UNINITIALIZED)


def for_ever():
    """Asks again and again how busy the first device is."""
    device, used = ctypes.c_void_p(), (ctypes.c_uint * 2)()
    ask("nvmlInit_v2")
    ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device))
    print("running", flush=True)
    while True:
        nvml.nvmlDeviceGetUtilizationRates(device, used)
        time.sleep(0.2)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
