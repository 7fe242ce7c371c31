// SPDX-License-Identifier: Apache-2.0
#include "base/os/output.h"

#include <unistd.h>

#include <cerrno>

namespace barcuda::os {

void write_error(const char* text, std::size_t bytes) noexcept {
    const int before = errno;
    if (::write(STDERR_FILENO, text, bytes) < 0) errno = before;
}

}  // namespace barcuda::os
