// SPDX-License-Identifier: Apache-2.0
// rows.cc: makes a library, a program or a region of another version of one of this build, by changing the identities
// (shm-device/rows/identity.h) that stand in it.
//   rows FILE other ROW...    these rows are such as this build does not know
//   rows FILE swap ROW ROW    the one's number is the other's
//   rows REGION opened        says how often channels were opened so far
//   rows names                says what rows there are
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shm-device/rows/identity.h"

using namespace barcuda;

namespace {
[[noreturn]] void fail(const char* what, const char* which) {
    std::fprintf(stderr, "rows: %s %s\n", what, which);
    std::exit(1);
}

std::size_t number_of(const char* name) {
    for (std::size_t op = 0; op < op_names.size(); ++op)
        if (op_names[op] == name) return op;
    fail("there is no row", name);
}
}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && !std::strcmp(argv[1], "names")) {
        for (std::string_view name : op_names) std::printf("%s\n", name.data());
        return 0;
    }
    if (argc < 3) fail("usage:", "rows FILE other|swap|opened ROW...");
    struct stat file {};
    const int fd = open(argv[1], O_RDWR);
    if (fd < 0 || fstat(fd, &file) != 0) fail("cannot open", argv[1]);
    const auto size = static_cast<std::size_t>(file.st_size);
    auto* at = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (at == MAP_FAILED) fail("cannot map", argv[1]);
    if (!std::strcmp(argv[2], "opened")) {
        std::uint32_t opened = 0;
        for (unsigned i = 0; i < BARCUDA_MAX_CHANNELS; ++i)
            opened += observe(reinterpret_cast<barcuda_slot*>(at + BARCUDA_SLOTS_OFFSET)[i].opened);
        std::printf("%u\n", opened);
        return 0;
    }
    auto* rows = static_cast<std::uint64_t*>(memmem(at, size, identities.data(), sizeof identities));
    if (!rows) fail("no rows of this build are in", argv[1]);
    if (!std::strcmp(argv[2], "swap") && argc == 5) std::swap(rows[number_of(argv[3])], rows[number_of(argv[4])]);
    else if (!std::strcmp(argv[2], "other"))
        for (int i = 3; i < argc; ++i) rows[number_of(argv[i])] ^= 1;
    else fail("what is", argv[2]);
    return 0;
}
