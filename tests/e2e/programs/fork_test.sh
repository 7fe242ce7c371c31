#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who forks before it has used CUDA has children that can, wherever its memory came from; and what is run by other ways is
# no such child.
. "$(dirname "$0")/../lib.sh"
need python3
for setting in BARCUDA_HEAP=auto BARCUDA_HEAP=always BARCUDA_HEAP=never BARCUDA_THRESHOLD=0; do
    timeout 120 env $setting $run -- "$build/programs/fork_first" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" && ! grep -q "barcuda:" "$scratch/out" ||
        { cat "$scratch/out"; fail "children with $setting"; }
    echo "children with $setting: passed"
done

# Workers of Python's multiprocessing, as a DataLoader has them: only they use CUDA, and their parent's memory.
cat > "$scratch/pool.py" <<'EOP'
import ctypes, multiprocessing, os
data = (ctypes.c_int * (1 << 18))(*range(1 << 18))  # a megabyte

def work(n):
    cuda = ctypes.CDLL("libcudart.so.13")
    device, back = ctypes.c_void_p(), (ctypes.c_int * len(data))()
    size = ctypes.c_size_t(ctypes.sizeof(data))
    data[0] = n
    for error in (cuda.cudaMalloc(ctypes.byref(device), size), cuda.cudaMemcpy(device, data, size, 1),
                  cuda.cudaMemcpy(back, device, size, 2), cuda.cudaFree(device)):
        if error: return f"error {error}"
    return "fine" if back[0] == n and back[1:] == data[1:] else "wrong"

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        results = pool.map(work, range(100, 108), chunksize=1)
    assert data[0] == 0 and results == ["fine"] * 8, results
    os.system("true"), os.popen("true").read()
    assert work(7) == "fine", work(7)  # the parent, after them
    late = multiprocessing.get_context("fork").Process(target=lambda: os._exit(work(7) == "error 3"))
    late.start(), late.join()
    assert late.exitcode == 1, late.exitcode
    print("PASSED")
EOP
for setting in BARCUDA_HEAP=auto BARCUDA_HEAP=always; do
    timeout 120 env $setting $run -- python3 "$scratch/pool.py" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" && ! grep -q "barcuda:" "$scratch/out" ||
        { cat "$scratch/out"; fail "multiprocessing with $setting"; }
    echo "multiprocessing with $setting: passed"
done
