// SPDX-License-Identifier: Apache-2.0
// file.cc: files of a region on Windows: a plain file, or a device of virtio-win's driver.
#include "base/os/file.h"

#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <cerrno>
#include <utility>

#include "base/os/view.h"

namespace barcuda::os {
namespace {

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }
// Only files have locks of the system's. The memory of a device is one process's at a time: its view has them.
bool has_locks(int file) { return GetFileType(handle_of(file)) == FILE_TYPE_DISK; }

OVERLAPPED at(std::uint64_t offset) {
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(offset);
    place.OffsetHigh = static_cast<DWORD>(offset >> 32);
    return place;
}

}  // namespace

int facts_of(int file, FileFacts& facts) {
    facts = {};
    LARGE_INTEGER size;
    if (!has_locks(file)) {
        facts.type = FileFacts::Type::characters;
        return 0;
    }
    if (!GetFileSizeEx(handle_of(file), &size)) return EIO;
    facts.type = FileFacts::Type::regular;
    facts.size = static_cast<std::uint64_t>(size.QuadPart);
    facts.names = 1;
    return 0;
}

void touch(int file) {
    char byte;
    DWORD got;
    OVERLAPPED place = at(0);
    ReadFile(handle_of(file), &byte, 1, &got, &place);
}

KeptFile::KeptFile(KeptFile&& other) noexcept { *this = std::move(other); }

KeptFile& KeptFile::operator=(KeptFile&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    known_ = std::exchange(other.known_, false);
    return *this;
}

int KeptFile::keep(int fd) {
    close();
    fd_ = fd;
    known_ = true;
    return 0;
}

bool KeptFile::open_again(const char*) { return false; }

void KeptFile::close() {
    if (fd_ >= 0) {
        forget_view(fd_);
        _close(fd_);
    }
    fd_ = -1;
    known_ = false;
}

// No program closes handles that it has not opened.
bool KeptFile::is_ours() const { return fd_ >= 0 && known_; }

// The lock is the handle's: it ends with the process.
int lock_byte(int file, std::uint64_t offset, Lock lock, Holder) {
    if (!has_locks(file)) {
        View* const view = view_of(file);
        if (!view) return EBADF;
        if (lock != Lock::none) return view->lock(offset);
        view->unlock(offset);
        return 0;
    }
    OVERLAPPED place = at(offset);
    if (lock == Lock::none) return UnlockFileEx(handle_of(file), 0, 1, 0, &place) ? 0 : EINVAL;
    const DWORD how = LOCKFILE_FAIL_IMMEDIATELY | (lock == Lock::exclusive ? LOCKFILE_EXCLUSIVE_LOCK : 0);
    return LockFileEx(handle_of(file), how, 0, 1, 0, &place) ? 0 : EAGAIN;
}

int probe_byte(int file, std::uint64_t offset) {
    if (const int code = lock_byte(file, offset, Lock::exclusive, Holder::open_file)) return code;
    lock_byte(file, offset, Lock::none, Holder::open_file);
    return 0;
}

}  // namespace barcuda::os
