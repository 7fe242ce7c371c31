// SPDX-License-Identifier: Apache-2.0
#include "base/os/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace barcuda::os {

bool barrier_everywhere() noexcept { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

bool join_barrier() noexcept { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

bool has_joined_barrier() noexcept {
    static const bool yes = join_barrier();
    return yes;
}

}  // namespace barcuda::os
