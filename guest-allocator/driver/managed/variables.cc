// SPDX-License-Identifier: Apache-2.0
// variables.cc: __managed__ variables, and all else that a driver calls managed at an address of its own choice. The
// driver keeps a variable where the code of kernels names it, in the worker's process. That address lies in the window
// that this process reserves for the device's memory: so pages of the region can be mapped right there. Only the
// variable migrates, not what else lies on its pages. Variables that share a page share a range.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/os/maps.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/backing.h"
#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/driver/managed/state/state.h"

namespace barcuda::guest::managed {
namespace {

constexpr std::uintptr_t page = 4096;

// Reserved by this process for the device's memory (reserve_window()), and used for nothing else.
bool is_reserved(std::uintptr_t begin, std::uintptr_t end) {
    if (!is_device(begin) || !is_device(end - 1) || (taken.count() && taken.overlap(begin, end))) return false;
    os::Maps maps;
    os::Mapping m;
    return maps.find(reinterpret_cast<void*>(begin), m) && m.end >= end && !m.readable && !m.writable && !m.inode;
}

CUresult not_available(CUdeviceptr address) {
    static std::atomic_flag told;
    if (told.test_and_set()) return CUDA_ERROR_NOT_SUPPORTED;
    char line[240];
    const int n =
        snprintf(line, sizeof line,
                 "barcuda: a __managed__ variable lies at %#llx in the GPU's worker, where this process has memory of "
                 "its own: use cudaMallocManaged instead\n",
                 static_cast<unsigned long long>(address));
    if (n > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(n)) < 0) return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult adopt(CUdeviceptr address, std::size_t bytes, std::uint64_t code) noexcept {
    if (!bytes) return CUDA_SUCCESS;
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.allocations.find(address)) return CUDA_SUCCESS;
    const std::uintptr_t begin = address & ~(page - 1), end = (address + bytes + page - 1) & ~(page - 1);
    Range* first = nullptr;
    for (std::uintptr_t at = begin; at < end;) {
        Range* range = s.ranges.next(at);
        if (!range || at < range->begin) {  // there is none up to that one
            const std::uintptr_t last = range ? std::min(end, range->begin) : end;
            if (!is_reserved(at, last)) return not_available(address);
            take_faults();
            auto made = std::make_unique<Range>(at, last - at, owner_of(current_context()));
            made->of_variables = made->shared = true;
            if (!map_host_side(*made)) return CUDA_ERROR_OUT_OF_MEMORY;
            range = made.get();
            add_range(std::move(made));
        }
        if (!first) first = range;
        // The CPU may have access to other variables of the page, but does not have this one's contents: they must be
        // fetched.
        invalidate(*range, range->all(), {});
        range->add_part(address, address + bytes);
        at = range->end;
    }
    s.allocations.add({address, bytes, CU_MEM_ATTACH_GLOBAL, owner_of(current_context()), first, {}, code});
    s.epochs.add_unnamed();  // kernels that use it may have been launched before
    s.gates.end_fast_path();
    return CUDA_SUCCESS;
}

void unloaded(std::uint64_t code) noexcept {
    if (!exists() || forked_after_init()) return;
    std::vector<std::unique_ptr<Range>> gone;
    {
        State& s = state();
        std::lock_guard lock(s.mutex);
        s.allocations.remove_if([&](const Allocation& a) {
            if (!a.range || !a.range->of_variables || a.code != code) return false;
            for (Range *range = s.ranges.next(a.begin), *following; range && range->begin < a.end();
                 range = following) {
                following = s.ranges.next(range->end);
                std::erase_if(range->parts, [&](const auto& p) { return p.begin < a.end() && p.end > a.begin; });
                if (range->parts.empty()) gone.push_back(withdraw(*range));
            }
            return true;
        });
    }
    for (auto& range : gone) release(std::move(range));
}

}  // namespace barcuda::guest::managed

using namespace barcuda::guest;

namespace {

template <Op op, class Code> CUresult variable(CUdeviceptr* address, size_t* bytes, Code code, const char* name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (op != Op::cuModuleGetGlobal_v2 && !current_context())
        return CUDA_ERROR_INVALID_CONTEXT;  // a module has its own
    CUdeviceptr there = 0;
    size_t size = 0;
    CUresult r = bare_command<op>(&there, &size, code, name);
    std::uint64_t is = op == Op::cuLibraryGetManaged;
    if (r == CUDA_SUCCESS && !is)
        if (bare_command<Op::pointer_attribute>(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, there) != CUDA_SUCCESS) is = 0;
    if (r == CUDA_SUCCESS && is) r = managed::adopt(there, size, reinterpret_cast<std::uint64_t>(code));
    if (r == CUDA_SUCCESS && address) *address = there;
    if (r == CUDA_SUCCESS && bytes) *bytes = size;
    return r;
}

}  // namespace

CU cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    return variable<Op::cuLibraryGetManaged>(address, bytes, library, name);
}
CU cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    return variable<Op::cuLibraryGetGlobal>(address, bytes, library, name);
}
CU cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
    if (!address && !bytes) return CUDA_ERROR_INVALID_VALUE;
    return variable<Op::cuModuleGetGlobal_v2>(address, bytes, module, name);
}
CU cuModuleUnload(CUmodule module) {
    const CUresult r = command<Op::cuModuleUnload>(module);
    if (r == CUDA_SUCCESS) managed::unloaded(reinterpret_cast<std::uint64_t>(module));
    return r;
}
