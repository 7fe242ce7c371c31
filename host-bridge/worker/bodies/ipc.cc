// SPDX-License-Identifier: Apache-2.0
// ipc.cc: what a process shares with others of its region: memory and events by handles (cuIpc*, pointers of pools),
// memory and pools by descriptors (cuMem*ShareableHandle). The driver's own handle or descriptor stays with the bridge;
// programs pass on a token for it, which no other process can guess. (The guest's half:
// guest-allocator/driver/memory.cc, descriptor.cc.)
#include <fcntl.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "host-bridge/worker/bodies/body.h"
#include "host-bridge/worker/quota/quota.h"

namespace barcuda {
namespace {

using Kind = Shared::Kind;

// Replaces a driver's handle in `outer` (or a descriptor) by its token, or a token by the handle.
template <class Outer> CUresult share(Kind kind, Outer& outer, const File& file = {}) {
    auto inner = std::bit_cast<Shared::Handle>(outer);
    const CUresult r = session().granter().share(kind, inner, file);
    if (r == CUDA_SUCCESS) outer = std::bit_cast<Outer>(inner);
    return r;
}
template <class Outer> CUresult find(Kind kind, Outer& outer, File* got = nullptr) {
    auto inner = std::bit_cast<Shared::Handle>(outer);
    File file;
    const CUresult r = session().granter().find_shared(kind, inner, file);
    if (r == CUDA_SUCCESS) outer = std::bit_cast<Outer>(inner);
    if (got) *got = std::move(file);
    return r;
}

// The same for handles of memory and events; some drivers add the file that the handle stands for.
template <class Outer> CUresult share_handle(Kind kind, Outer& outer) {
    const int file = driver().handle_file ? driver().handle_file(&outer, -1) : -1;
    return share(kind, outer, File(file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0)));
}
template <class Outer> CUresult find_handle(Kind kind, Outer& outer, File& file) {
    const CUresult r = find(kind, outer, &file);
    if (r == CUDA_SUCCESS && file && driver().handle_file) driver().handle_file(&outer, file.fd());
    return r;
}

constexpr auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// In place of a driver's handle, of which a descriptor needs none, the bridge keeps what an importer is charged for.
// (An earlier build kept zeros.)
static_assert(sizeof(Quota::Extent) <= sizeof(ext::Token));

// `make` lets the driver make a descriptor.
CUresult share_file(Kind kind, ext::Token& token, auto make, const Quota::Extent& memory = {}) {
    int fd = -1;
    if (CUresult r = make(&fd); r != CUDA_SUCCESS) return r;
    token = {};
    std::memcpy(&token, &memory, sizeof memory);
    return share(kind, token, File(fd));
}
// `open` lets the driver open the descriptor.
CUresult find_file(Kind kind, ext::Token token, auto open) {
    File file;
    const CUresult r = find(kind, token, &file);
    if (r != CUDA_SUCCESS) return r;
    Quota::Extent memory;
    std::memcpy(static_cast<void*>(&memory), &token, sizeof memory);
    return open(reinterpret_cast<void*>(std::intptr_t{file.fd()}), memory);
}

}  // namespace

namespace ext {
CUresult export_memory(Token* token, CUmemGenericAllocationHandle memory) {
    const auto make = driver().cuMemExportToShareableHandle;
    if (!make) return CUDA_ERROR_NOT_SUPPORTED;
    return share_file(
        Kind::allocation, *token, [&](int* fd) { return make(fd, memory, posix, 0); },
        quota() ? quota()->extent_of(memory) : Quota::Extent{});
}
CUresult import_memory(CUmemGenericAllocationHandle* memory, Token token) {
    const auto open = driver().cuMemImportFromShareableHandle;
    if (!open) return CUDA_ERROR_NOT_SUPPORTED;
    return find_file(Kind::allocation, token, [&](void* fd, const Quota::Extent& its) {
        const auto import = [&] { return open(memory, fd, posix); };
        return quota() && its.bytes ? quota()->create(its.device, its.bytes, memory, import) : import();
    });
}
CUresult export_pool(Token* token, CUmemoryPool pool) {
    const auto make = driver().cuMemPoolExportToShareableHandle;
    return make ? share_file(Kind::pool, *token, [&](int* fd) { return make(fd, pool, posix, 0); })
                : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult import_pool(CUmemoryPool* pool, Token token) {
    const auto open = driver().cuMemPoolImportFromShareableHandle;
    return open ? find_file(Kind::pool, token, [&](void* fd, const auto&) { return open(pool, fd, posix, 0); })
                : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult withdraw(Token token) {
    session().granter().withdraw(std::bit_cast<Shared::Handle>(token));
    return CUDA_SUCCESS;
}
CUresult retain_memory(CUmemGenericAllocationHandle* memory, CUdeviceptr address) {
    if (!driver().cuMemRetainAllocationHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = driver().cuMemRetainAllocationHandle(memory, reinterpret_cast<void*>(address));
    if (r == CUDA_SUCCESS && session().handles().has(*memory))
        driver().cuMemRelease(*memory);  // the client holds it already
    return r;
}
}  // namespace ext

namespace body {
BODY(cuIpcGetMemHandle)(CUipcMemHandle* token, CUdeviceptr address) {
    if (!driver().cuIpcGetMemHandle) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = driver().cuIpcGetMemHandle(token, address); r != CUDA_SUCCESS) return r;
    session().addresses().note_shared(address);
    return share_handle(Kind::memory, *token);
}
BODY(cuIpcOpenMemHandle_v2)(CUdeviceptr* address, CUipcMemHandle token, unsigned flags) {
    if (!driver().cuIpcOpenMemHandle_v2) return CUDA_ERROR_NOT_SUPPORTED;
    File file;
    CUresult r = find_handle(Kind::memory, token, file);
    if (r == CUDA_ERROR_INVALID_HANDLE) r = CUDA_ERROR_INVALID_VALUE;  // as NVIDIA's driver calls it
    if (r == CUDA_SUCCESS) r = driver().cuIpcOpenMemHandle_v2(address, token, flags);
    if (r == CUDA_SUCCESS) session().addresses().note_opened(*address);
    return r;
}
BODY(cuIpcCloseMemHandle)(CUdeviceptr address) { return session().deferred().close(address); }
BODY(cuIpcGetEventHandle)(CUipcEventHandle* token, CUevent event) {
    if (!driver().cuIpcGetEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = driver().cuIpcGetEventHandle(token, event);
    return r == CUDA_SUCCESS ? share_handle(Kind::event, *token) : r;
}
BODY(cuIpcOpenEventHandle)(CUevent* event, CUipcEventHandle token) {
    if (!driver().cuIpcOpenEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    File file;
    const CUresult r = find_handle(Kind::event, token, file);
    if (r == CUDA_ERROR_INVALID_HANDLE) return CUDA_ERROR_MAP_FAILED;  // as NVIDIA's driver calls it
    return r == CUDA_SUCCESS ? driver().cuIpcOpenEventHandle(event, token) : r;
}
BODY(cuMemPoolExportPointer)(CUmemPoolPtrExportData* token, CUdeviceptr address) {
    if (!driver().cuMemPoolExportPointer) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = driver().cuMemPoolExportPointer(token, address);
    if (r == CUDA_SUCCESS) r = share(Kind::pointer, *token);
    if (r == CUDA_SUCCESS) session().note_shown(address, std::bit_cast<Shared::Handle>(*token));
    return r;
}
BODY(cuMemPoolImportPointer)(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* token) {
    if (!driver().cuMemPoolImportPointer) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = find(Kind::pointer, *token);
    return r == CUDA_SUCCESS ? driver().cuMemPoolImportPointer(address, pool, token) : r;
}

}  // namespace body
}  // namespace barcuda
