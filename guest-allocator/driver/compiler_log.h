// SPDX-License-Identifier: Apache-2.0
// compiler_log.h: the log buffers that a program passes among the options of a load or a link. What the driver's
// compiler said stays with the worker (host-bridge/worker/session/compiler_log.h) until it is fetched into them. Other
// options only tune; the worker's driver compiles with its defaults.
#pragma once
#include <cuda.h>

#include <cstddef>

#include "shm-device/rows/module.h"

namespace barcuda::guest {

class CompilerLogs {
  public:
    CompilerLogs(unsigned count, CUjit_option* options, void** values) noexcept;  // both are empty now

    ext::Logs wanted() const noexcept {
        return !errors_.text && !information_.text ? ext::no_logs : verbose_ ? ext::verbose_logs : ext::logs;
    }
    void fetch() const noexcept;                   // of the last load
    void fetch(CUlinkState state) const noexcept;  // of a link, as far as it has come

  private:
    struct Buffer {
        char* text = nullptr;  // null: not wanted
        std::size_t room = 0;
        void** used = nullptr;  // where the program wants to know its length; or null
    };
    template <class Ask> static void fill(const Buffer& buffer, Ask ask) noexcept;
    Buffer errors_, information_;
    bool verbose_ = false;
};

}  // namespace barcuda::guest
