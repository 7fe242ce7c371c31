// SPDX-License-Identifier: Apache-2.0
// book_file.h: a file that the bridges of one user share (turns.h, cards.h): opened, or made if it is missing, by the
// rules of regions. It must belong to this user or to root, have one name, and not be writable for all users.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda {

struct BookKind {  // a book begins with the first two words; the rest of a new book is zeros
    std::uint64_t magic;
    std::uint32_t version;
    std::size_t bytes;
    const char* what;    // "turns"
    const char* option;  // that names another file
};

// Opens such a file, or makes it with this mode. `option`: what names another.
Failure open_shared(const std::string& path, const char* option, mode_t mode, File& file);
// The open file with its lock (flock, which the caller releases), and its mapping.
Failure open_book(const std::string& path, const BookKind& kind, File& file, void*& at);
// Maps such a file. Null: it is not one.
void* map_book(int fd, const BookKind& kind);

}  // namespace barcuda
