// SPDX-License-Identifier: Apache-2.0
#include "base/os/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace barcuda::os {
namespace {

int protection(Access access) {
    return access == Access::write ? PROT_READ | PROT_WRITE : access == Access::read ? PROT_READ : PROT_NONE;
}

// mmap's answer, as 0 or an errno.
int take(void* p, void** address) {
    if (p == MAP_FAILED) return errno;
    *address = p;
    return 0;
}

}  // namespace

int map_file(int file, std::uint64_t offset, std::size_t bytes, Access access, void** address, void* wish) {
    return take(::mmap(wish, bytes, protection(access), MAP_SHARED, file, static_cast<off_t>(offset)), address);
}

int map_file_at(int file, std::uint64_t offset, void* address, std::size_t bytes, Over over) {
    const int flags = MAP_SHARED | (over == Over::nothing ? MAP_FIXED_NOREPLACE : MAP_FIXED);
    void* const p = ::mmap(address, bytes, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
    if (p == address) return 0;
    if (p == MAP_FAILED) return errno;
    ::munmap(p, bytes);  // Linux before 4.17 takes the flag for a hint
    return EEXIST;
}

int map_memory(std::size_t bytes, Access access, void** address, bool sparse) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (sparse || access == Access::none ? MAP_NORESERVE : 0);
    return take(::mmap(nullptr, bytes, protection(access), flags, -1, 0), address);
}

int grow_memory(std::size_t bytes, std::size_t more, void** address) {
    return take(::mremap(*address, bytes, more, MREMAP_MAYMOVE), address);
}

int allow(void* address, std::size_t bytes, Access access) {
    return ::mprotect(address, bytes, protection(access)) == 0 ? 0 : errno;
}

void forget(void* address, std::size_t bytes) { ::madvise(address, bytes, MADV_DONTNEED); }

// Asynchronous, msync() looks and does nothing.
bool is_mapped(const void* p, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{4095};
    const auto end = reinterpret_cast<std::uintptr_t>(p) + bytes;
    // Asynchronous, it looks and does nothing. Not libc's msync(), where a thread can be cancelled.
    return end > begin && ::syscall(SYS_msync, begin, end - begin, MS_ASYNC) == 0;
}

bool may_touch(const void* p, bool to_write) {
    const auto populate = [](const void* at, int advice) {
        constexpr std::uintptr_t page = 4096;
        const auto begin = reinterpret_cast<std::uintptr_t>(at) & ~(page - 1);
        return ::madvise(reinterpret_cast<void*>(begin), page, advice) == 0 || errno != EINVAL;
    };
    static char own;
    static const bool can_tell = populate(&own, MADV_POPULATE_WRITE);
    return !can_tell || populate(p, to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

std::size_t memory_bytes() {
    static const auto bytes =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

bool touch_to_write(void* address, std::size_t bytes) { return ::madvise(address, bytes, MADV_POPULATE_WRITE) == 0; }

bool reserve(std::uintptr_t begin, std::uintptr_t end) {
    if (begin >= end) return true;
    void* const want = reinterpret_cast<void*>(begin);
    return ::mmap(want, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                  0) == want;
}

void unmap(void* address, std::size_t bytes) { ::munmap(address, bytes); }

int move_mapping(void* from, std::size_t bytes, void* to) {
    return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to ? 0 : errno;
}

int copy_mapping(void* from, std::size_t bytes, void* to) {
    // A mapping of no length that is to grow is one more of the same file.
    return ::mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to ? 0 : errno;
}

void keep_from_children(void* address, std::size_t bytes) { ::madvise(address, bytes, MADV_DONTFORK); }

// The first overlapping line of /proc/self/maps, read piece by piece.
void name_mapping(std::uintptr_t from, std::uintptr_t to, char* line, std::size_t size) {
    std::snprintf(line, size, "another mapping");
    const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char piece[1024];
    char text[400];
    std::size_t length = 0;
    bool found = false;
    for (ssize_t n; !found && (n = ::read(fd, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n && !found; ++i) {
            if (piece[i] != '\n') {
                if (length < sizeof text - 1) text[length++] = piece[i];
                continue;
            }
            text[length] = '\0';
            length = 0;
            char* end = text;
            const std::uintptr_t begin = std::strtoull(text, &end, 16);
            const std::uintptr_t stop = *end == '-' ? std::strtoull(end + 1, nullptr, 16) : 0;
            found = begin < to && from < stop;
        }
    ::close(fd);
    if (!found) return;
    // "200000000000-200002000000 rw-s 00000000 00:01 1025      /name": the range, and the name if it has one.
    const char* name = std::strpbrk(text, "/[");
    std::snprintf(line, size, "%.*s (%.200s)", static_cast<int>(std::strcspn(text, " ")), text,
                  name ? name : "anonymous");
}

}  // namespace barcuda::os
