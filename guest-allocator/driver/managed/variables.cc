// SPDX-License-Identifier: Apache-2.0
// variables.cc: __managed__ variables, and whatever else a driver says is managed at an address that it has chosen. The driver
// keeps a variable where the code of kernels names it, in the worker's process. That address lies in the window that this process
// reserves for the device's memory: so pages of the region can be mapped right there, and what moves between the two homes is
// the variable alone, not what else lies on its pages. Variables that share a page share a home.
#include <sys/mman.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed/managed.h"
#include "guest-allocator/driver/managed/mechanism/backing.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/heap/maps.h"

namespace barcuda::guest::managed {
namespace {

constexpr std::uintptr_t page = 4096;

// Nobody's but the device's: reserved for it by this process (reserve_window()), and nothing else.
bool is_reserved(std::uintptr_t begin, std::uintptr_t end) {
    if (!is_device(begin) || !is_device(end - 1) || (taken.count() && taken.overlap(begin, end))) return false;
    heap::Maps maps;
    heap::Mapping m;
    return maps.find(reinterpret_cast<void*>(begin), m) && m.end >= end && !m.readable && !m.writable && !m.inode;
}

CUresult cannot_be_had(CUdeviceptr address) {
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

void add_part(Home& home, std::uintptr_t begin, std::uintptr_t end) {
    home.parts.push_back({std::max(begin, home.begin), std::min(end, home.end)});
    std::ranges::sort(home.parts, {}, &Home::Part::begin);
}

}  // namespace

CUresult adopt(CUdeviceptr address, std::size_t bytes, std::uint64_t code) noexcept {
    if (!bytes) return CUDA_SUCCESS;
    take_faults();
    Table& t = table();
    std::lock_guard lock(t.mutex);
    if (t.allocation(address)) return CUDA_SUCCESS;
    const std::uintptr_t begin = address & ~(page - 1), end = (address + bytes + page - 1) & ~(page - 1);
    Home* first = nullptr;
    for (std::uintptr_t at = begin; at < end;) {
        Home* home = t.find(at);
        if (!home) {  // up to the next one
            const auto next = t.homes.upper_bound(at);
            const std::uintptr_t last = next == t.homes.end() ? end : std::min(end, next->second->begin);
            if (!is_reserved(at, last)) return cannot_be_had(address);
            auto fresh = std::make_unique<Home>(at, last - at, current_context());
            fresh->of_variables = fresh->shared = true;
            if (!map_here(*fresh)) return CUDA_ERROR_OUT_OF_MEMORY;
            add_home(home = fresh.release());
        }
        if (!first) first = home;
        // What the CPU may have open of the page is not the variable: it is fetched anew.
        close(*home, home->all());
        add_part(*home, address, address + bytes);
        at = home->end;
    }
    t.allocations[address] = {address, bytes, CU_MEM_ATTACH_GLOBAL, current_context(), first, {}, code};
    ++t.unknown_streams, ++t.unnamed;  // kernels may have been launched before anybody knew of it
    t.gates.end_fast_path();
    return CUDA_SUCCESS;
}

void unloaded(std::uint64_t code) noexcept {
    if (!exists() || forked_after_init()) return;
    std::vector<std::unique_ptr<Home>> gone;
    {
        Table& t = table();
        std::lock_guard lock(t.mutex);
        for (auto at = t.allocations.begin(); at != t.allocations.end();) {
            const Allocation& a = at->second;
            if (!a.home || !a.home->of_variables || a.code != code) {
                ++at;
                continue;
            }
            for (auto h = t.homes.upper_bound(a.begin); h != t.homes.end() && h->second->begin < a.end();) {
                Home* const home = (h++)->second.get();
                std::erase_if(home->parts, [&](const Home::Part& p) { return p.begin < a.end() && p.end > a.begin; });
                if (home->parts.empty()) gone.push_back(take_out(home));
            }
            at = t.allocations.erase(at);
        }
    }
    for (auto& home : gone) remove_home(home.release());
}

}  // namespace barcuda::guest::managed

using namespace barcuda::guest;

namespace {

template <Op op, class Code> CUresult variable(CUdeviceptr* address, size_t* bytes, Code code, const char* name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    CUdeviceptr there = 0;
    size_t size = 0;
    CUresult r = unannounced<op>(&there, &size, code, name);
    std::uint64_t is = op == Op::cuLibraryGetManaged;
    if (r == CUDA_SUCCESS && !is)
        if (unannounced<Op::pointer_attribute>(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, there) != CUDA_SUCCESS) is = 0;
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
    return variable<Op::cuModuleGetGlobal_v2>(address, bytes, module, name);
}
CU cuModuleUnload(CUmodule module) {
    const CUresult r = unannounced<Op::cuModuleUnload>(module);
    if (r == CUDA_SUCCESS) managed::unloaded(reinterpret_cast<std::uint64_t>(module));
    return r;
}
