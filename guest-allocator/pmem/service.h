// SPDX-License-Identifier: Apache-2.0
// service.h: `barcuda guest serve`: the door of a guest whose region is memory of virtio-pmem. It does what the module does
// behind ivshmem (guest-uio): it gives each client a channel and what is granted to it, and nothing else, and tells the host
// when both are nobody's any more.
#pragma once
#include <string>

#include "shm-device/doors/service_messages.h"

namespace barcuda::pmem {

struct ServiceOptions {
    std::string device;                     // /dev/pmemN; empty: the one that has a region
    std::string socket = door::usual_path;  // where clients ask
    std::string group = "barcuda";          // whose members may; by name or number
};
// Serves until a signal ends it: clients go on without it, with what they have. Returns 1, having said why, if that cannot be.
int serve(const ServiceOptions& options);

}  // namespace barcuda::pmem
