#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The guest's NVML shows the bridge's devices and this guest's processes, to programs that are no clients: in Python without
# packages, in C, and as a table; it refuses to change anything, and says what is wrong where nobody serves. A host's own table has
# all of its devices, also those that no guest gets.
. "$(dirname "$0")/lib.sh"
need python3
need gcc
need pgrep
export BARCUDA_SOFT_DEVICES=2
[ "$device" = soft ] || { echo "skipped: tests/programs/nvml.cu has what a GPU shows"; exit 77; }
serve
[ -z "$(pgrep -P "$bridge" -f -- --monitor)" ] || fail "the host's NVML is asked though nobody wants to know"
sanitizer=$(ldd "$build/lib/barcuda/libnvidia-ml.so.1" | awk '/lib[at]san/ { print $3 }')
none=(env BARCUDA_REGION="$scratch/region" LD_LIBRARY_PATH="$PWD/$build/lib/barcuda" ${sanitizer:+LD_PRELOAD="$sanitizer"})
client_of_none() { "${none[@]}" "$@"; }

cat > "$scratch/ask.py" <<'PY'
import ctypes, os, subprocess, sys, time
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlErrorString.restype = ctypes.c_char_p
class Memory(ctypes.Structure): _fields_ = [(n, ctypes.c_ulonglong) for n in ("total", "free", "used")]
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
    all, count = (Process * 64)(), ctypes.c_uint(64)
    ask("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), all)
    return {p.pid: p.used for p in all[:count.value]}
def wait(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "never seen"
        time.sleep(0.05)

number("nvmlDeviceGetCount_v2", expect=1)  # uninitialized
ask("nvmlInit_v2")
count = number("nvmlDeviceGetCount_v2")
assert count == 2, count
devices = [handle(i) for i in range(count)]
ask("nvmlDeviceGetHandleByIndex_v2", 2, ctypes.byref(ctypes.c_void_p()), expect=2)
uuids = [text("nvmlDeviceGetUUID", d) for d in devices]
assert len(set(uuids)) == 2 and all(u.startswith("GPU-") for u in uuids), uuids
assert "software" in text("nvmlDeviceGetName", devices[0])
found = ctypes.c_void_p()
for bus in b"0000:BB:00.0", b"00000000:bb:00.0", b"BB:00.0":
    ask("nvmlDeviceGetHandleByPciBusId_v2", bus, ctypes.byref(found))
    assert found.value == devices[1].value
ask("nvmlDeviceGetHandleByPciBusId_v2", b"0000:01:00.0", ctypes.byref(found), expect=6)
ask("nvmlDeviceGetHandleByUUID", uuids[1].encode(), ctypes.byref(found))
assert found.value == devices[1].value
assert number("nvmlDeviceGetP2PStatus", devices[0], devices[1], 0) == 0

# What a piece of software has not; what a guest is not served; what nobody may do; what makes no sense.
number("nvmlDeviceGetTemperature", devices[0], 0, expect=3)
number("nvmlDeviceGetFanSpeed", devices[0], expect=3)
ask("nvmlDeviceGetAccountingStats", devices[0], 1, None, expect=3)
for setter in "nvmlDeviceSetPowerManagementLimit", "nvmlDeviceSetPersistenceMode", "nvmlDeviceSetComputeMode":
    ask(setter, devices[0], 1, expect=4)
ask("nvmlDeviceResetGpuLockedClocks", devices[0], expect=4)
number("nvmlDeviceGetClockInfo", devices[0], 4, expect=2)
number("nvmlDeviceGetClockInfo", ctypes.c_void_p(1), 0, expect=2)

# A client appears with its own pid, its memory and its work, on its device alone, and disappears.
assert processes(devices[0]) == {} and processes(devices[1]) == {}
memory = Memory()
program = subprocess.Popen([sys.argv[1], sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(
    os.environ, LD_PRELOAD=sys.argv[3]))
size = int(program.stdout.readline())
wait(lambda: processes(devices[1]).get(program.pid, 0) >= size)
ask("nvmlDeviceGetMemoryInfo", devices[1], ctypes.byref(memory))
assert size <= memory.used <= memory.total, memory.used  # of everybody who uses a software GPU of this machine
assert memory.free == memory.total - memory.used
name = text("nvmlSystemGetProcessName", program.pid)
assert name == sys.argv[1], name
rates = (ctypes.c_uint * 2)()
def busy():
    ask("nvmlDeviceGetUtilizationRates", devices[1], rates)
    return rates[0]
program.stdin.write(b"work\n"), program.stdin.flush()
wait(lambda: busy() > 0)
assert rates[0] <= 100, rates[0]
few = ctypes.c_uint(0)
ask("nvmlDeviceGetComputeRunningProcesses_v3", devices[1], ctypes.byref(few), None, expect=7)
assert few.value == 1, few.value
program.kill()
program.wait()
wait(lambda: processes(devices[1]) == {})

# CUDA_VISIBLE_DEVICES is CUDA's.
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
assert number("nvmlDeviceGetCount_v2") == 2
ask("nvmlInit_v2")
ask("nvmlShutdown")
assert number("nvmlDeviceGetCount_v2") == 2  # as often as nvmlInit
ask("nvmlShutdown")
number("nvmlDeviceGetCount_v2", expect=1)
print("passed")
PY
client_of_none python3 "$scratch/ask.py" "$build/e2e/nvml_client" 1 "$PWD/$build/lib/libbarcuda.so" > "$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
echo "devices, processes, memory and work, from Python"

cat > "$scratch/ask.c" <<'C'
#include <stdio.h>
int nvmlInit_v2(void), nvmlShutdown(void), nvmlSystemGetDriverVersion(char*, unsigned), nvmlDeviceGetCount_v2(unsigned*);
int main(void) {
    char version[80];
    unsigned count = 0;
    int status = nvmlInit_v2();
    if (status) return printf("%d\n", status), 1;
    if (nvmlSystemGetDriverVersion(version, sizeof version) || nvmlDeviceGetCount_v2(&count) || nvmlShutdown()) return 2;
    printf("%s %u\n", version, count);
    return 0;
}
C
gcc -Wall -o "$scratch/ask" "$scratch/ask.c" -L"$build/lib/barcuda" -l:libnvidia-ml.so.1 || fail "gcc"
[ "$(client_of_none "$scratch/ask")" = "$(cat VERSION) 2" ] || fail "a C program: $(client_of_none "$scratch/ask")"
echo "from C"

# Who asks NVML alone is no client of the bridge.
grep -c 'client admitted' "$scratch/log" | grep -qx 1 || fail "NVML's callers took channels: $(cat "$scratch/log")"

smi="$build/bin/barcuda smi"
client_of_none $smi > "$scratch/table" || fail "$smi"
for what in "Driver Version: $(cat VERSION) " "CUDA Version: 13.0" "Barcuda software GPU" "00000000:BA:00.0" "00000000:BB:00.0" "No running processes"; do
    grep -q "$what" "$scratch/table" || fail "the table lacks '$what': $(cat "$scratch/table")"
done
[ "$(awk '{ print length }' "$scratch/table" | sed 1d | sort -u | tr '\n' ' ')" = "0 91 " ] || fail "a table with ragged lines: $(cat "$scratch/table")"
client_of_none $smi --json | python3 -c '
import json, sys
it = json.load(sys.stdin)
assert len(it["gpus"]) == 2 and it["gpus"][1]["memory"]["total"] > 0 and it["gpus"][0]["temperature"] is None, it' || fail "$smi --json"
echo "as a table and as JSON"

# The monitor is replaced when it dies and somebody wants to know; the answers stay.
monitor=$(pgrep -P "$bridge" -f -- --monitor)
kill -9 "$monitor"
client_of_none "$scratch/ask" > /dev/null || fail "no answers without a monitor"
await "the monitor has ended" "$scratch/log"
for _ in $(seq 60); do [ -n "$(pgrep -P "$bridge" -f -- --monitor)" ] && break; client_of_none $smi > /dev/null; sleep 0.1; done
[ -n "$(pgrep -P "$bridge" -f -- --monitor)" ] || fail "no new monitor"
echo "a new monitor for one that died"

# One that hangs is noticed: what does not change is still known, what does is not.
monitor=$(pgrep -P "$bridge" -f -- --monitor)
kill -STOP "$monitor"
client_of_none $smi > /dev/null &
await "does not answer" "$scratch/log"
wait $!
client_of_none "$scratch/ask" > /dev/null || fail "no answers while the monitor hangs"
client_of_none $smi --json | python3 -c '
import json, sys
it = json.load(sys.stdin)["gpus"][0]
assert it["memory"] is None and "software" in it["name"], it' || fail "old values for new ones"
kill -CONT "$monitor"
for _ in $(seq 600); do client_of_none $smi | grep -q 'MiB /' && break; sleep 0.05; done
client_of_none $smi | grep -q 'MiB /' || fail "no values after the monitor came back"
echo "no old values while the host's NVML hangs"

kill "$bridge"; wait "$bridge" 2> /dev/null; bridge=
client_of_none $smi > "$scratch/out" 2>&1 && fail "a table though nobody serves"
grep -q "^barcuda smi: no bridge serves the region" "$scratch/out" || fail "nobody serves: $(cat "$scratch/out")"
[ "$(client_of_none "$scratch/ask")" = 9 ] || fail "nvmlInit without a bridge"
env BARCUDA_REGION="$scratch/nowhere" $smi > "$scratch/out" 2>&1 && fail "a table of no region"
grep -q "^barcuda smi: $scratch/nowhere: there is no such region" "$scratch/out" || fail "no region: $(cat "$scratch/out")"
[ "$(env -u BARCUDA_SOFT_DEVICES "$build/bin/barcuda" run --device soft -- "$scratch/ask")" = "$(cat VERSION) 1" ] || fail "barcuda run"
echo "who finds no bridge is told so"

# --gpus: NVML's devices are those of CUDA without CUDA_VISIBLE_DEVICES, in that order; a process is on the device that it uses,
# also if its worker has a wrapper. The host sees the three that it has, by their places on the bus.
table() { # table NAME COMMAND...: "index bus pid..." of each device, of the processes with that in "NAME PID"
    local name=$1; shift
    "$@" --json | python3 -c '
import json, sys
for i, gpu in enumerate(json.load(sys.stdin)["gpus"]):
    print(i, gpu["pci_bus_id"][9:11], *[p["pid"] for p in gpu["processes"] if sys.argv[1] in "{name} {pid}".format(**p)])' "$name"
}
is() { # is WANTED NAME COMMAND...: in the end
    for _ in $(seq 400); do [ "$(table "${@:2}")" = "$1" ] && return; sleep 0.05; done
    fail "not '$1' but: $(table "${@:2}")"
}
export BARCUDA_SOFT_DEVICES=3
CUDA_VISIBLE_DEVICES=2,1,0 serve --no-vm --gpus 0,2 --worker-wrapper 'sh -c "\"\$@\" & wait" sh'
is $'0 BC\n1 BA' nvml_client client_of_none $smi
is $'0 BC\n1 BA' nvml_client client_of_none env CUDA_VISIBLE_DEVICES=1 $smi
is $'0 BA\n1 BB\n2 BC' nvml_client client_of_none env CUDA_VISIBLE_DEVICES=1 $smi --device soft
mkfifo "$scratch/input"
(export "${guest[@]:1}" CUDA_VISIBLE_DEVICES=0; exec -a $'\e[31mnvml_client\xff' "$build/e2e/nvml_client" 0 < "$scratch/input" > "$scratch/client") & program=$!
exec 7> "$scratch/input"
await '^[0-9]' "$scratch/client"
is "0 BC $program"$'\n1 BA' nvml_client client_of_none $smi
client_of_none $smi | grep -q '?\[31mnvml_client?' || fail "a name is not as it was given, but for what a terminal would obey: $(client_of_none $smi)"
worker=$(pgrep -P "$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")")
# (Other bridges' workers may be there, too.)
is $'0 BA\n1 BB\n2 BC '$worker "barcuda-bridge $worker" client_of_none $smi --device soft
kill -9 "$program"; wait "$program" 2> /dev/null
is $'0 BC\n1 BA' nvml_client client_of_none $smi

# Who can write the region, as a guest's root can, sees no more, and does not lead the monitor astray. (One that began before wants to know
# all the time.)
"${none[@]}" timeout 100 python3 -c '
import ctypes, time
nvml, device, used = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint * 2)()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
print("running", flush=True)
while True: nvml.nvmlDeviceGetUtilizationRates(device, used), time.sleep(0.2)' > "$scratch/asks" & asker=$!
await running "$scratch/asks"
python3 - "$scratch/region" "$(pgrep -P "$bridge" -f -- --monitor)" <<'PY' || fail "a region that is written to"
import os, signal, sys, time
region = open(sys.argv[1], "r+b", buffering=0)
def exchange(offset, new):
    old = os.pread(region.fileno(), len(new), offset)
    os.pwrite(region.fileno(), new, offset)
    return old
devices, snapshot = 0x40000, 0x60000
offset = exchange(176, b"\xff" * 8)
exchange(72, b"\x03")
exchange(devices + 256, b"BarcudaSoftGPU-1")
os.kill(int(sys.argv[2]), signal.SIGKILL)
end = time.monotonic() + 60
sequence = lambda: os.pread(region.fileno(), 8, snapshot)
while os.path.exists("/proc/" + sys.argv[2]): time.sleep(0.02)
last = sequence()
while sequence() == last:
    assert time.monotonic() < end, "no new monitor writes"
    time.sleep(0.05)
exchange(176, offset)
exchange(72, b"\x02")
PY
kill "$asker"; wait "$asker" 2> /dev/null
is $'0 BC\n1 BA' nvml_client client_of_none $smi
echo "the devices of --gpus in the guest, all of them on the host"
