// SPDX-License-Identifier: Apache-2.0
// service.h: `barcuda guest serve`: the door of a guest whose region is memory of virtio-pmem. It does the work of the
// kernel module behind ivshmem (guest-uio): it gives each client a channel and its grants, and nothing else, and tells
// the host when they are unused again.
#pragma once
#include <string>

#include "shm-device/doors/service_messages.h"

namespace barcuda::pmem {

struct ServiceOptions {
    std::string device;                     // /dev/pmemN; empty: the one that has a region
    std::string socket = door::usual_path;  // where clients ask
    std::string group = "barcuda";          // whose members may; by name or number
};
// Serves until a signal ends it; clients continue without it. Returns 1, after a message, if it cannot serve.
int serve(const ServiceOptions& options);

}  // namespace barcuda::pmem
