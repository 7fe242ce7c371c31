// SPDX-License-Identifier: Apache-2.0
// maps.h: the mappings of this process: the kernel's own list, read line by line. It allocates no memory: callers are
// malloc, forked children, and threads that have stopped the others.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::os {

struct Mapping {
    std::uintptr_t begin = 0, end = 0;
    bool readable = false, writable = false, executable = false, shared = false;
    std::uint64_t offset = 0;  // of the file's byte at `begin`
    dev_t device = 0;
    ino_t inode = 0;  // 0: no file, anonymous
    bool is_stack = false;

    bool holds(std::uintptr_t at) const { return begin <= at && at < end; }
    int protection() const;  // for mprotect()
};

class Maps {
  public:
    Maps() noexcept;
    ~Maps();
    Maps(const Maps&) = delete;
    explicit operator bool() const noexcept { return fd_ >= 0; }  // no /proc, or no descriptors left
    bool next(Mapping& out) noexcept;                             // in the order of addresses; false at the end
    bool find(const void* p, Mapping& out) noexcept;              // the next one that contains p

  private:
    int fd_;
    char text_[4096];
    std::size_t at_ = 0, held_ = 0;
};

}  // namespace barcuda::os
