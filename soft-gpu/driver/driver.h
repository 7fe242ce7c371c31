// SPDX-License-Identifier: Apache-2.0
// driver.h: the devices, their settings, and the tables of all objects with handles. The first cuInit makes it, and it
// is never destroyed: threads of streams may outlive main().
//
//   BARCUDA_SOFT_DEVICES  number of devices, 1 (default) to 32: all alike, and all on the same cores
//   BARCUDA_SOFT_QUEUES   number of queues that a context's streams share, like the channels of hardware: 1 to 1024;
//                         0 (default): no queues, streams never block one another
//   CUDA_VISIBLE_DEVICES  which devices are visible, and in which order, as with any driver
//   BARCUDA_SOFT_MEMORY   a device's memory: 4G, 512M ... (default: half of the machine's, at most 16G)
//   BARCUDA_SOFT_CC       its compute capability: 9.0 (default), 7.5 ...
//   BARCUDA_SOFT_COMPILE  which kernels become machine code: 1 (default) those that run for some time; 0 none; always
//   BARCUDA_SOFT_CARD     a file: processes that name the same one share the cards' memory (card.h). Default: each
//                         process has cards of its own
//   BARCUDA_SOFT_WINDOW   the address of device memory in this process (default 0x300000000000)
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "soft-gpu/driver/api.h"
#include "soft-gpu/driver/handles.h"
#include "soft-gpu/driver/memory.h"

namespace barcuda::soft::driver {

class Context;
class Stream;
class Event;
class Pool;
struct Module;
struct Function;
struct Library;
struct Kernel;
struct Linker;
struct Graph;
struct GraphNode;
struct GraphExec;
struct UserObject;
struct Array;
struct Mipmap;

struct Settings {
    int devices = 1;           // visible ones
    std::vector<int> numbers;  // of the visible devices, among all
    std::size_t memory = 0;    // bytes, of each device
    int major = 9, minor = 0;
    std::uintptr_t window = 0x300000000000;
    int cores = 1;        // of this machine: each is a multiprocessor
    unsigned queues = 0;  // per context, for copies and for other work each; 0: as many as streams

    int compute_capability() const { return major * 10 + minor; }
    static Settings from_environment();
};

// What each device has of its own. Handles and the table of pointers belong to the driver: all devices can access all
// memory.
struct Device {
    std::shared_ptr<Context> primary;
    std::shared_ptr<Pool> default_pool;
    std::shared_ptr<Pool> current() {
        std::lock_guard lock(mutex_);
        return current_pool_;
    }
    void set_current(std::shared_ptr<Pool> pool) {
        std::lock_guard lock(mutex_);
        current_pool_ = std::move(pool);
    }

  private:
    std::mutex mutex_;
    std::shared_ptr<Pool> current_pool_;
};

struct Driver {
    explicit Driver(const Settings& settings);
    static Driver& get();  // throws Error: not initialized
    static CUresult initialize();

    const Settings settings;
    AddressSpace space;
    Memory memory;
    Device& device(CUdevice ordinal) {  // throws CUDA_ERROR_INVALID_DEVICE
        require(ordinal >= 0 && ordinal < settings.devices, CUDA_ERROR_INVALID_DEVICE);
        return devices[static_cast<std::size_t>(ordinal)];
    }
    // Waits for all work of all devices, before a change to memory that any of them may be using.
    void synchronize();

    Handles<CUcontext, Context> contexts{CUDA_ERROR_INVALID_CONTEXT};
    Handles<CUstream, Stream> streams;
    Handles<CUevent, Event> events;
    Handles<CUmodule, Module> modules;
    Handles<CUfunction, Function> functions;
    Handles<CUkernel, Kernel> kernels;
    Handles<CUlibrary, Library> libraries;
    Handles<CUlinkState, Linker> linkers;
    Handles<CUmemoryPool, Pool> pools{CUDA_ERROR_INVALID_VALUE};
    Handles<CUmemGenericAllocationHandle, Physical> physicals{CUDA_ERROR_INVALID_VALUE};
    Handles<CUgraph, Graph> graphs{CUDA_ERROR_INVALID_VALUE};
    Handles<CUgraphNode, GraphNode> nodes{CUDA_ERROR_INVALID_VALUE};
    Handles<CUgraphExec, GraphExec> execs{CUDA_ERROR_INVALID_VALUE};
    Handles<CUuserObject, UserObject> user_objects{CUDA_ERROR_INVALID_VALUE};
    Handles<CUarray, Array> arrays;
    Handles<CUmipmappedArray, Mipmap> mipmaps;

    std::atomic<std::uint64_t> next_id{1};  // of contexts, streams, allocations, captures

  private:
    std::array<Device, most_devices> devices;
};

CUuuid uuid_of(int number);  // of all devices, also hidden ones

// Checks the device argument of a function. Throws CUDA_ERROR_INVALID_DEVICE.
inline void require_device(CUdevice device) { Driver::get().device(device); }

}  // namespace barcuda::soft::driver
