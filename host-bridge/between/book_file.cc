// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/book_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace barcuda {
namespace {

struct Head {
    std::uint64_t magic;
    std::uint32_t version;
};
// How long a bridge waits for others that make the file, or that hold its lock.
constexpr int looks = 200, between_looks_ms = 10;

}  // namespace

void* map_book(int fd, const BookKind& kind) {
    struct stat st;
    if (fstat(fd, &st) != 0 || static_cast<std::size_t>(st.st_size) < kind.bytes) return nullptr;
    void* const at = mmap(nullptr, kind.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return nullptr;
    Head head;
    std::memcpy(&head, at, sizeof head);
    if (head.magic == kind.magic && head.version == kind.version) return at;
    munmap(at, kind.bytes);
    return nullptr;
}

Failure open_shared(const std::string& path, const char* option, mode_t mode, File& file) {
    const auto failed = [&](const std::string& why) { return fmt::format("{}: {}", path, why); };
    file = File(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!file && errno == EEXIST) file = File(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat st;
    if (!file || fstat(file.fd(), &st) != 0) return failed(strerror(errno));
    if (!S_ISREG(st.st_mode)) return failed("it is not a regular file");
    const std::string other = fmt::format("name another ({})", option);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return failed(
            fmt::format("it belongs to user {}, not to this one or to root: remove it, or {}", st.st_uid, other));
    if (st.st_nlink != 1) return failed("it has a second name (a hard link): remove both, or " + other);
    if (st.st_mode & S_IWOTH) return failed("every user may write to it (chmod o-w)");
    return {};
}

Failure open_book(const std::string& path, const BookKind& kind, File& file, void*& at) {
    const auto failed = [&](const std::string& why) { return fmt::format("{}: {}", path, why); };
    if (Failure failure = open_shared(path, kind.option, 0660, file)) return failure;
    struct stat st;
    for (int i = 0; flock(file.fd(), LOCK_EX | LOCK_NB) != 0; poll(nullptr, 0, between_looks_ms))
        if (++i == looks)
            return failed("another process holds its lock: end that process, or name another (" +
                          std::string(kind.option) + ")");
    if (fstat(file.fd(), &st) == 0 && st.st_size == 0) {
        if (const int r = posix_fallocate(file.fd(), 0, static_cast<off_t>(kind.bytes)); r != 0)
            return failed(strerror(r));
        if (pwrite(file.fd(), &kind.version, sizeof kind.version, offsetof(Head, version)) < 0 ||
            pwrite(file.fd(), &kind.magic, sizeof kind.magic, offsetof(Head, magic)) < 0)
            return failed(strerror(errno));
    }
    at = map_book(file.fd(), kind);
    if (!at)
        return failed(
            fmt::format("it is not a book of {} of this version: remove it when no bridge uses it", kind.what));
    return {};
}

}  // namespace barcuda
