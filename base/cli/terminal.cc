// SPDX-License-Identifier: Apache-2.0
// terminal.cc: how wide this process's terminal is.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/cli/wrap.h"

namespace barcuda {

std::size_t terminal_columns() {
    if (!isatty(STDOUT_FILENO)) return 0;
    winsize size = {};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size.ws_col;
    const char* const columns = getenv("COLUMNS");
    const unsigned long number = columns ? strtoul(columns, nullptr, 10) : 0;
    return number ? number : 80;
}

}  // namespace barcuda
