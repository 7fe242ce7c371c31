// SPDX-License-Identifier: Apache-2.0
// driver.h: the host's CUDA driver, opened at run time: NVIDIA's libcuda.so.1, or the software GPU's. One member for
// each of CUDA's functions that has a row; a driver that lacks one leaves it null.
#pragma once
#include <string>

#include "shm-device/rows/commands.h"

namespace barcuda {

// A process's own: it leaves its GPUs, and returns. Without rows, since no client calls them.
struct Checkpoint {
    decltype(&::cuCheckpointProcessLock) cuCheckpointProcessLock = nullptr;
    decltype(&::cuCheckpointProcessCheckpoint) cuCheckpointProcessCheckpoint = nullptr;
    decltype(&::cuCheckpointProcessRestore) cuCheckpointProcessRestore = nullptr;
    decltype(&::cuCheckpointProcessUnlock) cuCheckpointProcessUnlock = nullptr;
    explicit operator bool() const {  // a driver has all of them, or is older than 570
        return cuCheckpointProcessLock && cuCheckpointProcessCheckpoint && cuCheckpointProcessRestore &&
               cuCheckpointProcessUnlock;
    }
};

struct Driver {
#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_DRIVER_ROWS(X)
#undef X
    Checkpoint checkpoint;
    std::string library;  // where it was found; empty: it has not been opened
    // The software GPU's handles alone (soft-gpu/driver/calls/ipc_calls.cc); null: a driver finds what a handle means by itself.
    int (*handle_file)(void* handle, int given) = nullptr;
    // The software GPU's too (soft-gpu/driver/code.cc): where it will put compiled kernels.
    std::size_t (*code)(std::uintptr_t* base) = nullptr;

    // Opens the library of this name and fills the table. Returns what went wrong and what to do about it; empty: all
    // is well.
    std::string open(const std::string& name);
    std::string error_name(CUresult result) const;
};

// Which driver `--device auto|cuda|soft` means here.
struct DeviceChoice {
    std::string library;  // for Driver::open
    bool software = false;
    std::string error;  // not empty: there is no such device, and why
    bool tried = true;
};
// Where `stop` can be read nobody waits for a driver any more.
DeviceChoice choose_device(const std::string& device, int stop = -1);
// The same, but where there seems to be a GPU its driver is not tried: that takes as long as a start of it. Should it not start
// later, choose_device() says what else there is.
DeviceChoice likely_device(const std::string& device, int stop = -1);
std::string nvml_of(const std::string& library);  // the NVML of a driver lies beside it
std::string software_library();                   // where the software GPU's libcuda.so.1 lies, beside this program

}  // namespace barcuda
