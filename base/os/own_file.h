// SPDX-License-Identifier: Apache-2.0
// own_file.h: a file that a user names for a program to write to (BARCUDA_TRACE, BARCUDA_STATS). The name may be in a
// folder that every user may write to. Another user may have been there first, with a file, a link to one of this
// user's files, or a pipe without a reader.
#pragma once
#include <fcntl.h>

#include <cstddef>

namespace barcuda {

// Opens it to append to, or as `how` says; makes it, for this user alone, if there is none. -1, with errno; EPERM: it
// is another user's file or link.
int open_own_file(const char* path, int how = O_WRONLY | O_APPEND) noexcept;
// In one write, so that lines of several processes do not mix. Without a reader, or without room, it is lost.
void write_own_file(int file, const char* text, std::size_t bytes) noexcept;
void close_own_file(int file) noexcept;

}  // namespace barcuda
