// SPDX-License-Identifier: Apache-2.0
#include "base/os/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/os/out_of_the_way.h"

namespace barcuda::os {
namespace {

struct flock one_byte(std::uint64_t offset, short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(offset);
    lock.l_len = 1;
    return lock;
}

}  // namespace

int facts_of(int file, FileFacts& facts) {
    struct stat st;
    struct statfs fs;
    if (::fstat(file, &st) != 0 || ::fstatfs(file, &fs) != 0) return errno;
    using Type = FileFacts::Type;
    facts.type = S_ISREG(st.st_mode)    ? Type::regular
                 : S_ISCHR(st.st_mode)  ? Type::characters
                 : S_ISSOCK(st.st_mode) ? Type::socket
                                        : Type::other;
    using System = FileFacts::System;
    facts.system = fs.f_type == SYSFS_MAGIC        ? System::sysfs
                   : fs.f_type == PROC_SUPER_MAGIC ? System::proc
                   : fs.f_type == HUGETLBFS_MAGIC  ? System::huge_pages
                                                   : System::other;
    facts.size = static_cast<std::uint64_t>(st.st_size);
    facts.block = static_cast<std::uint64_t>(fs.f_bsize);
    facts.blocks = static_cast<std::uint64_t>(st.st_blocks);
    facts.device = st.st_dev;
    facts.inode = st.st_ino;
    facts.major = gnu_dev_major(st.st_rdev);
    facts.minor = gnu_dev_minor(st.st_rdev);
    facts.owner = st.st_uid;
    facts.mode = st.st_mode & 07777;
    facts.names = static_cast<unsigned>(st.st_nlink);
    facts.all_may_write = (st.st_mode & S_IWOTH) != 0;
    return 0;
}

bool is_socket(const char* path) {
    struct stat st;
    return ::stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

bool names_a_descriptor(const char* path) {
    const int link = ::open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;
    const bool yes = link >= 0 && ::fstatfs(link, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    if (link >= 0) ::close(link);
    return yes;
}

bool is_named(int file, const char* path) {
    struct stat mine, there;
    return ::fstat(file, &mine) == 0 && ::lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

void touch(int file) {
    char byte = 0;
    if (::pread(file, &byte, 1, 0) < 0) return;
}

bool read_line(const char* path, char* line, std::size_t size) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = ::read(fd, line, size - 1);
    ::close(fd);
    if (n <= 0) return false;
    if (line[n - 1] == '\n') --n;
    line[n] = '\0';
    return true;
}

KeptFile::KeptFile(KeptFile&& other) noexcept { *this = std::move(other); }

KeptFile& KeptFile::operator=(KeptFile&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    known_ = std::exchange(other.known_, false);
    device_ = other.device_;
    inode_ = other.inode_;
    return *this;
}

int KeptFile::keep(int fd) {
    close();
    fd_ = out_of_the_way(fd);
    struct stat st;
    if (::fstat(fd_, &st) != 0) return errno;
    device_ = st.st_dev;
    inode_ = st.st_ino;
    known_ = true;
    return 0;
}

bool KeptFile::open_again(const char* path) {
    const int fd = ::open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat st;
    if (::fstat(fd, &st) != 0 || st.st_dev != device_ || st.st_ino != inode_) {
        ::close(fd);
        return false;
    }
    fd_ = out_of_the_way(fd);
    return true;
}

void KeptFile::close() {
    if (fd_ >= 0 && (!known_ || is_ours())) ::close(fd_);
    fd_ = -1;
    known_ = false;
}

bool KeptFile::is_ours() const {
    struct stat st;
    return fd_ >= 0 && known_ && ::fstat(fd_, &st) == 0 && st.st_dev == device_ && st.st_ino == inode_;
}

int lock_byte(int file, std::uint64_t offset, Lock lock, Holder holder) {
    const short type = lock == Lock::none ? F_UNLCK : lock == Lock::shared ? F_RDLCK : F_WRLCK;
    struct flock wanted = one_byte(offset, type);
    if (::fcntl(file, holder == Holder::process ? F_SETLK : F_OFD_SETLK, &wanted) == 0) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

int probe_byte(int file, std::uint64_t offset) {
    struct flock wanted = one_byte(offset, F_WRLCK);
    if (::fcntl(file, F_OFD_GETLK, &wanted) != 0) return errno == EACCES ? EAGAIN : errno;
    return wanted.l_type != F_UNLCK ? EAGAIN : 0;
}

}  // namespace barcuda::os
