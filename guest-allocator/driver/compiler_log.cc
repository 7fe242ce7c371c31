// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/compiler_log.h"

#include <algorithm>
#include <cstdint>

#include "guest-allocator/client/command.h"

namespace barcuda::guest {

CompilerLogs::CompilerLogs(unsigned count, CUjit_option* options, void** values) noexcept {
    for (unsigned i = 0; i < count; ++i) {
        const auto number = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(values[i]));
        switch (options[i]) {
            case CU_JIT_ERROR_LOG_BUFFER: errors_.text = static_cast<char*>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                errors_.room = number;
                errors_.used = &values[i];
                break;
            case CU_JIT_INFO_LOG_BUFFER: information_.text = static_cast<char*>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                information_.room = number;
                information_.used = &values[i];
                break;
            case CU_JIT_LOG_VERBOSE: verbose_ = number != 0; break;
            default: break;
        }
    }
    for (Buffer* each : {&errors_, &information_}) {
        if (each->room == 0) each->text = nullptr;
        if (each->text) *each->text = 0;
        if (each->used) *each->used = nullptr;
    }
}

template <class Ask> void CompilerLogs::fill(const Buffer& buffer, Ask ask) noexcept {
    if (!buffer.text) return;
    const std::size_t room = std::min<std::size_t>(buffer.room, 32 << 10);  // as much as a reply carries
    std::uint64_t used = 0;
    if (ask(buffer.text, room, &used) != CUDA_SUCCESS) used = 0;
    buffer.text[std::min<std::size_t>(used, room - 1)] = 0;
    if (buffer.used)  // CUDA counts no NUL, but of a text that did not fit all of the buffer
        *buffer.used = reinterpret_cast<void*>(used);
}

void CompilerLogs::fetch() const noexcept {
    fill(errors_,
         [](char* text, std::size_t room, std::uint64_t* used) { return command<Op::load_log>(1u, text, room, used); });
    fill(information_,
         [](char* text, std::size_t room, std::uint64_t* used) { return command<Op::load_log>(0u, text, room, used); });
}

void CompilerLogs::fetch(CUlinkState state) const noexcept {
    fill(errors_, [=](char* text, std::size_t room, std::uint64_t* used) {
        return command<Op::link_log>(state, 1u, text, room, used);
    });
    fill(information_, [=](char* text, std::size_t room, std::uint64_t* used) {
        return command<Op::link_log>(state, 0u, text, room, used);
    });
}

}  // namespace barcuda::guest
