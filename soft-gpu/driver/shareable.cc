// SPDX-License-Identifier: Apache-2.0
#include "soft-gpu/driver/shareable.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {
constexpr std::size_t page = 4096;
// A process that maps the file relies on all of its pages.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}  // namespace

int make_shareable(const Label& label) {
    const int file = memfd_create("barcuda-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const auto size = static_cast<off_t>(label.size);
    if (file >= 0 && ftruncate(file, size + static_cast<off_t>(page)) == 0 &&
        pwrite(file, &label, sizeof label, size) == sizeof label && fcntl(file, F_ADD_SEALS, seals) == 0)
        return file;
    if (file >= 0) close(file);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
}

int duplicate(int file) {
    const int same = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (same < 0) fail(CUDA_ERROR_OPERATING_SYSTEM);
    return same;
}

Label label_of(int file, Label::What what) {
    struct stat about {};
    Label label{};
    require(fcntl(file, F_GET_SEALS) == seals && fstat(file, &about) == 0);
    const off_t size = about.st_size - static_cast<off_t>(page);
    require(size > 0 && pread(file, &label, sizeof label, size) == sizeof label);
    require(label.what == what && label.size == static_cast<std::uint64_t>(size));
    require_device(label.properties.location.id);
    return label;
}

std::uint64_t inode_of(int file) {
    struct stat about;
    if (fstat(file, &about) != 0) fail(CUDA_ERROR_INVALID_HANDLE);
    return about.st_ino;
}

}  // namespace barcuda::soft::driver
