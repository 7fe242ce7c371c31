// SPDX-License-Identifier: Apache-2.0
// link.cc: the driver's linker. Inputs and the finished image cross in the region. (The guest's half:
// guest-allocator/driver/link.cc.)
#include <cstring>
#include <string>

#include "host-bridge/worker/session/session.h"

namespace barcuda::ext {
CUresult link_create(CUlinkState* state, Logs wanted) {
    auto log = CompilerLog::wanted(wanted);
    const CUresult r = log ? driver().cuLinkCreate_v2(CompilerLog::count, log->options(), log->values(), state)
                           : driver().cuLinkCreate_v2(0, nullptr, nullptr, state);
    if (r == CUDA_SUCCESS) session().code().link(*state).log = std::move(log);
    return r;
}
CUresult link_add(CUlinkState state, CUjitInputType type, const void* image, std::size_t bytes, const char* name) {
    LargeString copy = session().code().take(image, bytes);
    session().births().loads(copy);
    return driver().cuLinkAddData_v2(state, type, copy.data(), bytes, name, 0, nullptr, nullptr);
}
CUresult link_complete(CUlinkState state, std::size_t* bytes) {
    void* image = nullptr;
    const CUresult r = driver().cuLinkComplete(state, &image, bytes);
    if (r != CUDA_SUCCESS) return r;
    Code::Link& link = session().code().link(state);
    link.image = image;
    link.bytes = *bytes;
    return r;
}
CUresult link_fetch(CUlinkState state, void* to, std::size_t bytes) {
    const Code::Link& link = session().code().link(state);
    if (!link.image || link.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(to, link.image, bytes);
    return CUDA_SUCCESS;
}
CUresult link_log(CUlinkState state, unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    return CompilerLog::tell(session().code().link(state).log.get(), errors, text, room, used);
}

}  // namespace barcuda::ext
