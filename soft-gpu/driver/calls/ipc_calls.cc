// SPDX-License-Identifier: Apache-2.0
// ipc_calls.cc: memory and events of another process. A handle names the process that has the object, the file in
// memory that contains it, and the place in it: device memory as a whole is one file (heap.h), and each shared event
// has a file of its own. A process that opens the handle maps that file, which lives as long as any mapping. A worker
// may not open files of another process, so the file comes with the handle (barcuda_soft_handle_file).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/shareable.h"
#include "soft-gpu/driver/stream.h"

namespace barcuda::soft::driver {

std::shared_ptr<Opened> Opened::map(int file, std::size_t offset, std::size_t bytes) {
    constexpr std::size_t page = 4096;
    const std::size_t before = offset % page, length = before + bytes;
    void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset - before));
    if (at == MAP_FAILED) fail(CUDA_ERROR_MAP_FAILED);
    madvise(at, length, MADV_DONTFORK);
    return std::make_shared<Opened>(at, length, reinterpret_cast<std::uintptr_t>(at) + before);
}
Opened::~Opened() { munmap(pages, length); }

SharedEvent::SharedEvent(int file) : file(file) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        close(file);
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    page_ = static_cast<Page*>(at);
}

SharedEvent::~SharedEvent() {
    munmap(page_, bytes);
    close(file);
}

std::shared_ptr<SharedEvent> SharedEvent::make() {
    const int file = memfd_create("barcuda-event", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes) != 0) {
        close(file);
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    return std::make_shared<SharedEvent>(file);
}

std::uint64_t SharedEvent::ask() {
    page_->recorder.store(getpid(), std::memory_order_relaxed);
    return page_->asked.fetch_add(1, std::memory_order_release) + 1;
}

void SharedEvent::reach(std::uint64_t number) {
    std::uint64_t so_far = page_->reached.load(std::memory_order_relaxed);
    while (so_far < number && !page_->reached.compare_exchange_weak(so_far, number, std::memory_order_release)) {}
}

bool SharedEvent::reached(std::uint64_t number) const {
    if (page_->reached.load(std::memory_order_acquire) >= number) return true;
    return kill(page_->recorder.load(std::memory_order_relaxed), 0) != 0 && errno == ESRCH;
}

namespace {

enum class What : std::uint64_t { memory = 0x79726f6d656d, event = 0x746e657665 };  // as text

struct Handle {
    What what;
    std::int32_t process, file;
    std::uint64_t inode;  // of the file: numbers of processes and files are reused
    std::uint64_t offset, bytes;
    std::int64_t given;  // the same file in the process that opens the handle; -1: that process must find it
};
static_assert(sizeof(Handle) <= CU_IPC_HANDLE_SIZE);

template <class Outer> void put(Outer* outer, What what, int file, std::uint64_t offset, std::uint64_t bytes) {
    const Handle h{what, getpid(), file, inode_of(file), offset, bytes, -1};
    std::memset(outer, 0, sizeof *outer);
    std::memcpy(outer->reserved, &h, sizeof h);
}

template <class Outer> Handle get(const Outer& outer, What what) {
    Handle h;
    std::memcpy(&h, outer.reserved, sizeof h);
    require(h.what == what, CUDA_ERROR_INVALID_VALUE);
    require(h.process != getpid(), CUDA_ERROR_INVALID_CONTEXT);  // the driver's answer to the owner
    return h;
}

// The file of a handle, if it still exists. Throws CUDA_ERROR_INVALID_HANDLE.
int open_file(const Handle& h) {
    const std::string path = "/proc/" + std::to_string(h.process) + "/fd/" + std::to_string(h.file);
    const int file =
        h.given >= 0 ? fcntl(static_cast<int>(h.given), F_DUPFD_CLOEXEC, 0) : open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat st;
    const bool there = file >= 0 && fstat(file, &st) == 0 && st.st_ino == h.inode &&
                       h.offset <= static_cast<std::uint64_t>(st.st_size) &&
                       h.bytes <= static_cast<std::uint64_t>(st.st_size) - h.offset;
    if (!there) {
        close(file);
        fail(CUDA_ERROR_INVALID_HANDLE);
    }
    return file;
}

// What this process has opened, by file and offset: a second open is only counted.
struct AllOpened {
    std::mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<Opened>> all;
};
AllOpened& opened() {
    static auto& them = *new AllOpened;
    return them;
}

std::shared_ptr<Opened> map_memory(const Handle& h, const Context& context) {
    const int file = open_file(h);
    std::shared_ptr<Opened> fresh;
    try {
        fresh = Opened::map(file, h.offset, h.bytes);
    } catch (const Error&) {
        close(file);
        throw;
    }
    close(file);
    Driver::get().memory.adopt({.base = fresh->address,
                                .size = h.bytes,
                                .kind = Allocation::Kind::opened,
                                .context = context.handle(),
                                .device = context.device,
                                .opened = fresh},
                               CUDA_ERROR_MAP_FAILED);
    return fresh;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// Returns the file of a handle that this process has made. If `given` is not -1, it is instead the file with which a
// handle will be opened; the caller keeps it.
extern "C" [[gnu::visibility("default")]] int barcuda_soft_handle_file(void* handle, int given) {
    Handle h;
    std::memcpy(&h, handle, sizeof h);
    if (given < 0) return h.process == getpid() ? h.file : -1;
    h.given = given;
    std::memcpy(handle, &h, sizeof h);
    return given;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
    return api([&] {
        require(handle);
        current_context();
        Memory& memory = Driver::get().memory;
        const auto found = memory.find(address);
        require(found && found->legacy_ipc());
        put(handle, What::memory, memory.heap().file(), found->base - memory.heap().base(), found->size);
    });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    return api([&] {
        require(address && (flags & ~static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) == 0);
        const auto context = current_context();
        const Handle h = get(handle, What::memory);
        std::lock_guard lock(opened().mutex);
        auto& known = opened().all[{h.inode, h.offset}];
        auto it = known.lock();
        if (it) ++it->times;
        else known = it = map_memory(h, *context);
        *address = it->address;
    });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    return api([&] {
        current_context()->synchronize();  // CUDA waits for the work that may still use it
        std::lock_guard lock(opened().mutex);
        const auto found = Driver::get().memory.find(address);
        require(found && found->opened && !found->pool && found->base == address);
        if (--found->opened->times == 0) Driver::get().memory.remove(address, [](const Allocation&) { return true; });
        std::erase_if(opened().all, [](const auto& each) { return each.second.expired(); });
    });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
    return api([&] {
        require(handle);
        const auto it = Driver::get().events.find(event);
        require(it->shared != nullptr, CUDA_ERROR_INVALID_HANDLE);
        put(handle, What::event, it->shared->file, 0, SharedEvent::bytes);
    });
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
    return api([&] {
        require(event);
        auto fresh = std::make_shared<Event>(current_context(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
        fresh->shared = std::make_shared<SharedEvent>(open_file(get(handle, What::event)));
        *event = Driver::get().events.add(std::move(fresh));
    });
}
