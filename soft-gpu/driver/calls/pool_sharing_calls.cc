// SPDX-License-Identifier: Apache-2.0
// pool_sharing_calls.cc: pools of other processes. A shareable pool is in a file, whose descriptor gives access to it;
// a pointer travels as a place in that file. Other processes free what they map before the owner does, as CUDA
// requires.
#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/pool.h"
#include "soft-gpu/driver/shareable.h"

namespace barcuda::soft::driver {
namespace {

struct Pointer {
    char what[16];
    std::uint64_t inode, offset, bytes;  // of the pool's file, and in it
};
constexpr char pool_pointer[16] = "pool pointer";
static_assert(sizeof(Pointer) <= sizeof(CUmemPoolPtrExportData));

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
    return api([&] {
        require(handle_out && flags == 0 && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        const auto of = Driver::get().pools.find(pool);
        require(of->own != nullptr);
        *static_cast<int*>(handle_out) = duplicate(of->own->file());
    });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
    return api([&] {
        require(pool_out && flags == 0 && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
        auto made = std::make_shared<Pool>(label_of(file, Label::What::pool).properties.location.id);
        made->imported = duplicate(file);
        *pool_out = Driver::get().pools.add(std::move(made));
    });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
    return api([&] {
        require(data);
        const auto found = Driver::get().memory.find(address);
        require(found && found->base == address && found->in_heap() && found->pool && found->pool->own);
        const Heap& own = *found->pool->own;
        Pointer pointer{{}, inode_of(own.file()), found->base - own.base(), found->size};
        std::memcpy(pointer.what, pool_pointer, sizeof pointer.what);
        *data = {};
        std::memcpy(data, &pointer, sizeof pointer);
    });
}

CUresult cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
    return api([&] {
        require(address && data);
        const auto context = current_context();
        const auto of = Driver::get().pools.find(pool);
        Pointer pointer;
        std::memcpy(&pointer, data, sizeof pointer);
        require(of->imported >= 0 && std::memcmp(pointer.what, pool_pointer, sizeof pointer.what) == 0 &&
                pointer.inode == inode_of(of->imported));
        const std::uint64_t size = label_of(of->imported, Label::What::pool).size;
        require(pointer.bytes != 0 && pointer.offset <= size && pointer.bytes <= size - pointer.offset);
        const auto fresh = Opened::map(of->imported, pointer.offset, pointer.bytes);
        Driver::get().memory.adopt({.base = fresh->address,
                                    .size = pointer.bytes,
                                    .kind = Allocation::Kind::opened,
                                    .context = context->handle(),
                                    .device = of->device,
                                    .pool = of,
                                    .opened = fresh},
                                   CUDA_ERROR_MAP_FAILED);
        *address = fresh->address;
    });
}
