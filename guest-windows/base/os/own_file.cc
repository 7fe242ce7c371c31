// SPDX-License-Identifier: Apache-2.0
// own_file.cc: a folder of Windows says which users may write to it; none is open to every user.
#include "base/os/own_file.h"

#include <io.h>

namespace barcuda {

int open_own_file(const char* path, int how) noexcept { return ::_open(path, how | O_CREAT | O_BINARY, 0600); }

void write_own_file(int file, const char* text, std::size_t bytes) noexcept {
    if (::_write(file, text, static_cast<unsigned>(bytes)) < 0) return;  // it is lost
}

void close_own_file(int file) noexcept { ::_close(file); }

}  // namespace barcuda
