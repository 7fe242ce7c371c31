// SPDX-License-Identifier: Apache-2.0
// compiler_log.h: buffers into which the driver's compiler writes while it loads or links. The driver gets them as
// options, and the client reads them afterwards (module.cc, link.cc). A client that wants no log costs nothing.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "shm-device/rows/module.h"

namespace barcuda {

class CompilerLog {
  public:
    explicit CompilerLog(bool verbose)
        : values_{texts_[0], reinterpret_cast<void*>(room), texts_[1], reinterpret_cast<void*>(room),
                  reinterpret_cast<void*>(std::size_t{verbose})} {}
    CompilerLog(const CompilerLog&) = delete;  // the driver keeps pointers into it
    CompilerLog& operator=(const CompilerLog&) = delete;

    // Null: the client wants no log.
    static std::unique_ptr<CompilerLog> wanted(ext::Logs logs) {
        return logs == ext::no_logs ? nullptr : std::make_unique<CompilerLog>(logs == ext::verbose_logs);
    }
    // Answers load_log and link_log.
    static CUresult tell(const CompilerLog* log, unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
        const std::string_view said = !log ? std::string_view("") : errors ? log->errors() : log->information();
        *used = std::min(said.size(), room);
        std::memset(text, 0, room);
        std::memcpy(text, said.data(), *used);
        return CUDA_SUCCESS;
    }

    static constexpr unsigned count = 5;
    CUjit_option* options() { return options_; }
    void** values() { return values_; }
    std::string_view errors() const { return {texts_[0], strnlen(texts_[0], room)}; }
    std::string_view information() const { return {texts_[1], strnlen(texts_[1], room)}; }

  private:
    static constexpr std::size_t room = 32 << 10;  // bytes; the driver leaves the rest out
    char texts_[2][room] = {};
    CUjit_option options_[count] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                                    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void* values_[count];
};

}  // namespace barcuda
