// SPDX-License-Identifier: Apache-2.0
// registry.cc: registration by nvcc's start-up code, and the loading at first use (see registry.h).
//
// The __cuda functions here are the private ABI between nvcc's generated code and the runtime. They run in static
// constructors, before main and perhaps before any driver is found, and again after main: they touch tables only.
#include "guest-allocator/runtime/registry.h"

#include <cstdio>
#include <new>
#include <utility>

#include "guest-allocator/runtime/context.h"
#include "guest-allocator/runtime/fat_binary.h"

namespace barcuda::heap {
[[gnu::weak]] void expect() noexcept;  // heap.h; absent where the runtime layer stands alone (its tests)
}
namespace barcuda::guest::managed {
[[gnu::weak]] void expect_faults() noexcept;  // managed.h; the same
}

namespace barcuda::runtime {

struct FatBinary {
    const fatbin::Wrapper* wrapper;
    std::atomic<CUlibrary> library;
    Kernel* kernels;
    Variable* variables;
};

namespace {

constinit PointerMap<Kernel> kernels;
constinit PointerMap<Variable> variables;
// Guards both, for short times. A thread that loads a library takes it under the loader's lock. So it is not
// state_lock, which a thread holds while code is sent to the GPU.
constinit guest::Mutex names_lock;

cudaError_t load(FatBinary& binary, CUlibrary* library) {
    *library = binary.library.load(std::memory_order_acquire);
    if (*library) [[likely]]
        return cudaSuccess;
    if (CUresult result = ready()) return translate(result);  // before the lock, which it may take
    std::lock_guard hold(state_lock);
    *library = binary.library.load(std::memory_order_relaxed);
    if (*library) return cudaSuccess;
    if (CUresult result = load_library(*binary.wrapper, library)) return translate(result);
    binary.library.store(*library, std::memory_order_release);
    return cudaSuccess;
}

cudaError_t load(Kernel& kernel, CUkernel* handle) {
    *handle = kernel.handle.load(std::memory_order_acquire);
    if (*handle) [[likely]]
        return cudaSuccess;
    CUlibrary library = nullptr;
    if (cudaError_t error = load(*kernel.binary, &library)) return error;
    if (CUresult result = cuLibraryGetKernel(handle, library, kernel.name))
        return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : translate(result);
    kernel.handle.store(*handle, std::memory_order_release);
    return cudaSuccess;
}

// The cell of the current device; null under a foreign context (nothing is cached for it) or without memory.
template <class T> std::atomic<T>* cell(std::atomic<std::atomic<T>*>& cells) {
    if (!thread.bound) return nullptr;
    std::atomic<T>* made = cells.load(std::memory_order_acquire);
    if (!made) [[unlikely]] {
        auto* fresh = new (std::nothrow) std::atomic<T>[device_count()] {};
        if (!fresh) return nullptr;
        if (cells.compare_exchange_strong(made, fresh, std::memory_order_acq_rel)) made = fresh;
        else delete[] fresh;
    }
    return &made[thread.device];
}

}  // namespace

cudaError_t function_of(Kernel& kernel, CUfunction* function) {
    if (CUresult result = ready()) return translate(result);
    std::atomic<CUfunction>* known = cell(kernel.functions);
    if (known && (*function = known->load(std::memory_order_acquire))) [[likely]]
        return cudaSuccess;
    CUkernel handle = nullptr;
    if (cudaError_t error = load(kernel, &handle)) return error;
    if (CUresult result = cuKernelGetFunction(function, handle)) return translate(result);
    if (known) known->store(*function, std::memory_order_release);
    return cudaSuccess;
}

Kernel* find_kernel(const void* symbol) { return kernels.find(symbol); }

cudaError_t function_of(const void* symbol, CUfunction* function, cudaError_t unknown) {
    Kernel* kernel = kernels.find(symbol);
    return kernel ? function_of(*kernel, function) : unknown;
}

cudaError_t kernel_of(const void* symbol, CUkernel* handle) {
    Kernel* kernel = kernels.find(symbol);
    return kernel ? load(*kernel, handle) : cudaErrorInvalidDeviceFunction;
}

cudaError_t address_of(const void* symbol, CUdeviceptr* address, std::size_t* size) {
    if (CUresult result = ready()) return translate(result);
    Variable* variable = variables.find(symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    *size = variable->size;
    std::atomic<CUdeviceptr>* known = cell(variable->addresses);
    if (known && (*address = known->load(std::memory_order_acquire))) return cudaSuccess;
    CUlibrary library = nullptr;
    if (cudaError_t error = load(*variable->binary, &library)) return error;
    CUresult result = variable->managed ? cuLibraryGetManaged(address, size, library, variable->name)
                                        : cuLibraryGetGlobal(address, size, library, variable->name);
    if (result) return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : translate(result);
    if (known) known->store(*address, std::memory_order_release);
    return cudaSuccess;
}

const void* symbol_of(CUfunction function, CUkernel handle) {
    const void* symbol = nullptr;
    kernels.each([&](Kernel& kernel) {
        CUkernel its = kernel.handle.load(std::memory_order_acquire);
        if (!its) return;
        auto* functions = kernel.functions.load(std::memory_order_acquire);
        bool same = handle && its == handle;
        for (int device = 0; functions && function && !same && device < device_count(); device++)
            same = functions[device].load(std::memory_order_acquire) == function;
        if (same && (!symbol || kernel.key != its)) symbol = kernel.key;  // a host stub is the better name
    });
    return symbol;
}

cudaError_t adopt(CUkernel handle) {
    std::lock_guard hold(names_lock);
    if (Kernel* known = kernels.find(handle)) {
        // Perhaps the name of a new kernel that got the handle of an unloaded one: what was cached may be the old
        // one's.
        auto* functions = known->functions.load(std::memory_order_acquire);
        for (int device = 0; functions && device < device_count(); device++) functions[device] = nullptr;
        return cudaSuccess;
    }
    auto* kernel = new (std::nothrow) Kernel{handle, nullptr, nullptr, nullptr, handle, nullptr};
    return kernel && kernels.insert(kernel) ? cudaSuccess : cudaErrorMemoryAllocation;
}

void forget_device(int device) {
    kernels.each([&](Kernel& kernel) {
        if (auto* functions = kernel.functions.load(std::memory_order_acquire)) functions[device] = nullptr;
    });
    variables.each([&](Variable& variable) {
        if (auto* addresses = variable.addresses.load(std::memory_order_acquire)) addresses[device] = 0;
    });
}

}  // namespace barcuda::runtime

using namespace barcuda::runtime;

#define ABI(type) extern "C" __attribute__((visibility("default"))) type

// The prototypes of crt/host_runtime.h, which can only be included by nvcc's own output.
ABI(void**) __cudaRegisterFatBinary(void* wrapper) {
    auto* binary = new (std::nothrow) FatBinary{};
    auto* its = static_cast<const barcuda::fatbin::Wrapper*>(wrapper);
    if (!binary || !its || its->magic != barcuda::fatbin::wrapper_magic) {
        std::fprintf(stderr, "barcuda: a fat binary of an unknown kind was not registered\n");
        delete binary;
        return nullptr;
    }
    binary->wrapper = its;
    if (barcuda::heap::expect)
        barcuda::heap::expect();  // this program will copy: its large buffers are worth having in the region
    if (barcuda::guest::managed::expect_faults)
        barcuda::guest::managed::expect_faults();  // and may have managed memory
    return reinterpret_cast<void**>(binary);
}

ABI(void) __cudaRegisterFatBinaryEnd(void**) {}  // all of its names are known now; we load at first use

ABI(void)
__cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                       int*) {
    auto* binary = reinterpret_cast<FatBinary*>(handle);
    if (!binary) return;
    std::lock_guard hold(names_lock);
    auto* kernel = new (std::nothrow) Kernel{host, name, binary, binary->kernels, nullptr, nullptr};
    if (kernel && kernels.insert(kernel)) binary->kernels = kernel;
    else delete kernel;
}

namespace {

void register_variable(void** handle, const void* host, const char* name, std::size_t size, void** managed) {
    auto* binary = reinterpret_cast<FatBinary*>(handle);
    if (!binary) return;
    std::lock_guard hold(names_lock);
    auto* variable = new (std::nothrow) Variable{host, name, size, binary, binary->variables, managed, nullptr};
    if (variable && variables.insert(variable)) binary->variables = variable;
    else delete variable;
}

}  // namespace

ABI(void) __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t size, int, int) {
    register_variable(handle, host, name, size, nullptr);
}

ABI(void)
__cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, std::size_t size, int, int) {
    register_variable(handle, host, name, size, host);
}

// Called by generated code before the host first touches a __managed__ variable: from then on its pointer leads to
// memory that both sides see, and that memory is also a name for the variable.
ABI(char) __cudaInitModule(void** handle) {
    auto* binary = reinterpret_cast<FatBinary*>(handle);
    if (!binary) return 0;
    for (Variable* variable = binary->variables; variable; variable = variable->next) {
        if (!variable->managed || variable->key != variable->managed) continue;
        CUdeviceptr address = 0;
        std::size_t size = 0;
        if (cudaError_t error = address_of(variable->key, &address, &size)) {
            record(error);
            return 0;
        }
        void* memory = reinterpret_cast<void*>(address);
        if (*variable->managed == memory) continue;
        *variable->managed = memory;
        register_variable(handle, memory, variable->name, variable->size, variable->managed);
    }
    return 1;
}

ABI(void) __cudaUnregisterFatBinary(void** handle) {
    auto* binary = reinterpret_cast<FatBinary*>(handle);
    if (!binary || exiting()) return;  // at exit kernels may still be running, and everything goes at once anyway
    {
        std::lock_guard hold(names_lock);
        for (Kernel* kernel = binary->kernels; kernel;) {
            kernels.remove(kernel);
            delete[] kernel->functions.load();
            delete std::exchange(kernel, kernel->next);
        }
        for (Variable* variable = binary->variables; variable;) {
            variables.remove(variable);
            delete[] variable->addresses.load();
            delete std::exchange(variable, variable->next);
        }
    }
    if (CUlibrary library = binary->library.load()) cuLibraryUnload(library);
    delete binary;
}
