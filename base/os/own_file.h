// SPDX-License-Identifier: Apache-2.0
// own_file.h: a file that a user names for a program to write to (BARCUDA_TRACE, BARCUDA_STATS). The name may lie in a folder
// that everybody may write to, where somebody else was quicker: with a file of his own, a link to one of the user's, or a
// pipe that nobody reads.
#pragma once
#include <fcntl.h>

namespace barcuda {

// To append to, or as `how` says; made if there is none, for this user alone. -1, with errno: EPERM, it is another user's, or
// a link of his.
int open_own_file(const char* path, int how = O_WRONLY | O_APPEND) noexcept;

}  // namespace barcuda
