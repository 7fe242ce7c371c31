// SPDX-License-Identifier: Apache-2.0
// own_file.cc: a folder of Windows says which users may write to it; none is open to every user.
#include "base/os/own_file.h"

#include <io.h>

namespace barcuda {

int open_own_file(const char* path, int how) noexcept { return ::_open(path, how | O_CREAT | O_BINARY, 0600); }

}  // namespace barcuda
