// SPDX-License-Identifier: Apache-2.0
// error_log.h: why calls failed, for programs that ask (cuLogs*): the last messages, and functions of the program that
// hear each of them.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <string>

namespace barcuda::guest::error_log {

// Maybe in a malloc of the program's: nothing is allocated here. Who hears is called by this thread, and may call CUDA.
void add(const char* message) noexcept;

CUlogsCallbackHandle hear(CUlogsCallback function, void* data) noexcept;  // null: there is no room
bool unhear(CUlogsCallbackHandle handle) noexcept;

unsigned count() noexcept;  // how many messages there have been
// Those from number `first` on, a line each, as far as they are kept and `room` bytes hold: the newest.
std::string since(unsigned first, std::size_t room);

}  // namespace barcuda::guest::error_log
