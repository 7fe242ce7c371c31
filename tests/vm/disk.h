// SPDX-License-Identifier: Apache-2.0
// disk.h: a block device in RAM: direct I/O needs a disk.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>

namespace barcuda::vm {

// 16 MiB, open for direct I/O; -1 if there is none: BARCUDA_TEST_BRD names the kernel's brd.ko. For root.
inline int open_disk() {
    mknod("/run/ram0", S_IFBLK | 0600, makedev(1, 0));
    const char* module = std::getenv("BARCUDA_TEST_BRD");
    const int fd = module ? open(module, O_RDONLY) : -1;
    if (fd >= 0) syscall(SYS_finit_module, fd, "rd_nr=1 rd_size=16384", 0);
    close(fd);
    return open("/run/ram0", O_RDWR | O_DIRECT | O_CLOEXEC);
}

}  // namespace barcuda::vm
