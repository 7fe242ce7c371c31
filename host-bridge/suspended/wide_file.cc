// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/wide_file.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace barcuda {

WideFile::WideFile(int file) : file_(file) {
    struct statfs system {};
    struct stat st {};
    if (fstatfs(file, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(file, &st) != 0) return;
    size_ = static_cast<std::uint64_t>(st.st_size);
    void* const at = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (at != MAP_FAILED) map_ = static_cast<std::byte*>(at);
}

WideFile::~WideFile() {
    if (map_) munmap(map_, most);
}

// The kernel says that pages are there before they are written to: a file system that is full would end the process.
bool WideFile::fill(std::uint64_t at, std::span<const std::byte> bytes) {
    if (!map_ || bytes.size() < smallest || at + bytes.size() > most) return false;
    if (const std::uint64_t end = at + bytes.size(); end > size_) {
        const std::lock_guard lock(grows_);
        // By the last byte, since frames that are written otherwise make the file longer, too.
        if (pwrite(file_, &bytes.back(), 1, static_cast<off_t>(end - 1)) != 1) return false;
        size_ = std::max(size_.load(), end);
    }
    constexpr std::uint64_t page = 4096;
    const std::uint64_t first = at / page * page;
    if (madvise(map_ + first, at + bytes.size() - first, MADV_POPULATE_WRITE) != 0) return false;
    std::memcpy(map_ + at, bytes.data(), bytes.size());
    return true;
}

int WideFile::write(std::uint64_t at, std::span<const std::byte> bytes) {
    return fill(at, bytes) ? 0 : write_all(file_, bytes, at);
}

}  // namespace barcuda
