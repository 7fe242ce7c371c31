// SPDX-License-Identifier: Apache-2.0
// terminal.cc: how wide this process's console is.
#include <windows.h>

#include "base/cli/wrap.h"

namespace barcuda {

std::size_t terminal_columns() {
    CONSOLE_SCREEN_BUFFER_INFO screen;
    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &screen)) return 0;
    return static_cast<std::size_t>(screen.srWindow.Right - screen.srWindow.Left + 1);
}

}  // namespace barcuda
