// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/client_copies.h"

#include <cstring>

#include "host-bridge/worker/memory/layer.h"

namespace barcuda {

// Memory that the program maps by itself belongs to no context: any one of its device does.
CUcontext ClientCopies::context_of(std::uint64_t address) {
    const Driver& driver = session_.driver();
    Contexts& contexts = session_.contexts();
    CUcontext owner = nullptr;
    if (driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address) == CUDA_SUCCESS &&
        contexts.find(owner))
        return owner;
    int device = 0, its = 0;
    if (driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS)
        return contexts.current();
    for (const Contexts::Living& living : contexts.living()) {
        contexts.switch_to(living.context);
        if (driver.cuCtxGetDevice(&its) == CUDA_SUCCESS && its == device) return living.context;
    }
    return contexts.current();
}

CUresult ClientCopies::enter(std::uint64_t device) {
    const CUcontext context = context_of(device);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context == session_.contexts().current()) return CUDA_SUCCESS;
    const CUresult r = copies_.finish();  // its stream is of the context before
    session_.contexts().switch_to(context);
    return r;
}

CUresult ClientCopies::to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes;) {
        const std::byte* aside = nullptr;
        const std::uint64_t its = find_contents(device + done, bytes - done, aside);
        CUresult r = aside ? CUDA_SUCCESS : enter(device + done);
        if (aside) std::memcpy(host + done, aside, its);
        else if (r == CUDA_SUCCESS) r = copies_.to_host(host + done, device + done, its);
        if (r != CUDA_SUCCESS) return r;
        done += its;
    }
    return CUDA_SUCCESS;
}
CUresult ClientCopies::to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) {
    const CUresult r = enter(device);
    return r == CUDA_SUCCESS ? copies_.to_device(device, host, bytes) : r;
}

std::vector<Contents> contents_of_memory(Session& session) {
    std::vector<Contents> all;
    for (const Birth::Made& its : session.births().memory()) all.push_back({its.thing.name, its.bytes});
    return all;
}

CopyRoom::CopyRoom(const Driver& driver, std::span<std::byte> room) : driver_(driver) {
    if (driver_.cuMemHostRegister_v2(room.data(), room.size(), CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
        at_ = room.data();
}
CopyRoom::~CopyRoom() {
    if (at_) driver_.cuMemHostUnregister(at_);
}

}  // namespace barcuda
