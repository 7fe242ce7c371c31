// SPDX-License-Identifier: Apache-2.0
// context.h: devices and their primary contexts, for the files that manage them (most need only ready() of runtime.h).
#pragma once
#include <span>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/runtime/runtime.h"

namespace barcuda::runtime {

// Guards what is built once: the driver's initialization, primary contexts, the loading of fat binaries. No hot path
// takes it, and nothing that the loader calls waits for it (registry.cc).
extern guest::Mutex state_lock;

CUresult bind(int device);             // cudaSetDevice: the device's primary context becomes current
CUresult current_device(int* device);  // without making a context
// cudaSetValidDevices: the devices of threads that have set none, in this order. None: the first one. All must exist.
void prefer_devices(std::span<const int> devices);
CUresult reset(int device);  // destroys the primary context; the next call of any thread makes a new one

}  // namespace barcuda::runtime
