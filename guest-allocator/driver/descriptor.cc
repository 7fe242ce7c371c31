// SPDX-License-Identifier: Apache-2.0
// descriptor.cc: natively the driver makes a file descriptor for memory of cuMemCreate, or for a pool. Programs send it
// to each other over UNIX sockets, and it keeps the memory alive. The host's descriptor stays on the host: the bridge
// has it, under a token. The program gets one end of a pair of sockets that contains the token for every importer
// (MSG_PEEK: it stays there). It can be sent, duplicated and inherited as any descriptor. When all its copies are
// closed, in all processes, the other end shows that, and the bridge closes the driver's descriptor. So memory is kept
// as long as natively. (The host's half: host-bridge/worker/bodies/ipc.cc.)
#include "guest-allocator/driver/descriptor.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/os/out_of_the_way.h"
#include "base/os/thread.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "shm-device/queue/wire.h"

namespace barcuda::guest {
namespace {

struct Slip {  // what lies in the socket
    char name[16] = "barcuda memory";
    ext::Token token{};
};

// Our ends, and whose socket it is: a program may close descriptors that it knows nothing of, and get the number again.
struct Watched {
    int end = -1;
    ino_t inode = 0;
    ext::Token token{};

    bool is_ours() const {
        struct stat st;
        return fstat(end, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode;
    }
};
Mutex mutex;
std::vector<Watched>& watched() {
    static auto& all = *new std::vector<Watched>;
    return all;
}

// The program's end; -1: no more descriptors can be opened.
int watch(const Slip& slip) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    const auto [programs, other] = ends;
    const int ours = out_of_the_way(other);
    struct stat st;
    if (send(ours, &slip, sizeof slip, MSG_NOSIGNAL) != sizeof slip || shutdown(ours, SHUT_RD) != 0 ||
        fstat(ours, &st) != 0) {
        close(ours);
        close(programs);
        return -1;
    }
    std::lock_guard lock(mutex);
    watched().push_back({ours, st.st_ino, slip.token});
    return programs;
}

template <Op op, class Handle>
CUresult export_to(void* descriptor, Handle handle, CUmemAllocationHandleType type, unsigned long long flags) {
    if (!descriptor || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags) return CUDA_ERROR_INVALID_VALUE;
    descriptors::collect();
    const os::Uncancelled uncancelled;
    Slip slip;
    if (CUresult r = command<op>(&slip.token, handle); r != CUDA_SUCCESS) return r;
    const int end = watch(slip);
    if (end < 0) {
        command<Op::withdraw>(slip.token);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(descriptor, &end, sizeof end);
    return CUDA_SUCCESS;
}

template <Op op, class Handle>
CUresult import_from(Handle* handle, void* descriptor, CUmemAllocationHandleType type, unsigned long long flags) {
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags) return CUDA_ERROR_INVALID_VALUE;
    // Whatever else it may be, it is only looked at.
    const int end = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
    const os::Uncancelled uncancelled;
    Slip slip;
    if (recv(end, &slip, sizeof slip, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) != sizeof slip ||
        memcmp(slip.name, Slip{}.name, sizeof slip.name) != 0)
        return CUDA_ERROR_UNKNOWN;  // as NVIDIA's driver (580) says of any descriptor that is not its own
    return command<op>(handle, slip.token);
}

}  // namespace

namespace descriptors {

bool there_are() noexcept { return host_rows::numbers[static_cast<std::size_t>(Op::export_memory)] != no_row; }

void collect() noexcept {
    if (forked_after_init()) return;
    const os::Uncancelled uncancelled;
    std::vector<ext::Token> closed;
    {
        std::lock_guard lock(mutex);
        if (watched().empty()) return;
        std::vector<pollfd> ends;
        for (const Watched& w : watched()) ends.push_back({w.end, 0, 0});
        if (poll(ends.data(), ends.size(), 0) <= 0) return;
        auto end = ends.begin();
        std::erase_if(watched(), [&](const Watched& w) {
            if (!(end++)->revents) return false;
            if (!w.is_ours()) return true;  // closed under our hands: the bridge keeps its descriptor until we end
            close(w.end);
            closed.push_back(w.token);
            return true;
        });
    }
    for (const ext::Token& token : closed) command<Op::withdraw>(token);
}

}  // namespace descriptors
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemExportToShareableHandle(void* descriptor, CUmemGenericAllocationHandle memory, CUmemAllocationHandleType type,
                                unsigned long long flags) {
    return export_to<Op::export_memory>(descriptor, memory, type, flags);
}
CU cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* memory, void* descriptor,
                                  CUmemAllocationHandleType type) {
    return import_from<Op::import_memory>(memory, descriptor, type, 0);
}
CU cuMemPoolExportToShareableHandle(void* descriptor, CUmemoryPool pool, CUmemAllocationHandleType type,
                                    unsigned long long flags) {
    return export_to<Op::export_pool>(descriptor, pool, type, flags);
}
CU cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* descriptor, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
    return import_from<Op::import_pool>(pool, descriptor, type, flags);
}
