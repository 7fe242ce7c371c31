// SPDX-License-Identifier: Apache-2.0
// driver.h: the host's CUDA driver, opened at run time: NVIDIA's libcuda.so.1, or the software GPU's. One member for
// each of CUDA's functions that has a row; a driver that lacks one leaves it null.
#pragma once
#include <string>

#include "base/failure.h"
#include "shm-device/rows/commands.h"

namespace barcuda {

// Functions that act on a process: it leaves its GPUs and returns. They have no rows, because no client calls them.
struct Checkpoint {
    decltype(&::cuCheckpointProcessLock) cuCheckpointProcessLock = nullptr;
    decltype(&::cuCheckpointProcessCheckpoint) cuCheckpointProcessCheckpoint = nullptr;
    decltype(&::cuCheckpointProcessRestore) cuCheckpointProcessRestore = nullptr;
    decltype(&::cuCheckpointProcessUnlock) cuCheckpointProcessUnlock = nullptr;
    explicit operator bool() const {  // a driver has all of them, or it is older than 570
        return cuCheckpointProcessLock && cuCheckpointProcessCheckpoint && cuCheckpointProcessRestore &&
               cuCheckpointProcessUnlock;
    }
};

struct Driver {
#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_DRIVER_ROWS(X)
#undef X
    Checkpoint checkpoint;
    std::string library;  // where it was found; empty: not opened
    // Only for handles of the software GPU (soft-gpu/driver/calls/ipc_calls.cc); null: the driver resolves handles by
    // itself.
    int (*handle_file)(void* handle, int given) = nullptr;
    // Also only in the software GPU (soft-gpu/driver/code.cc): where it will put compiled kernels.
    std::size_t (*code)(std::uintptr_t* base) = nullptr;

    // Shares the memory of its cards with other processes by this file (soft-gpu/driver/card.h); before cuInit. 0: no.
    int (*share_card)(int file) = nullptr;
    // Bytes of a device's memory that this process uses.
    std::uint64_t (*own_memory)(int device) = nullptr;

    // Opens the library of this name and fills the table.
    Failure open(const std::string& name);
    std::string error_name(CUresult result) const;
};

}  // namespace barcuda
