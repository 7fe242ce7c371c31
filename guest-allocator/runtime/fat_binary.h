// SPDX-License-Identifier: Apache-2.0
// fat_binary.h: what nvcc leaves in a program for each of its device-code images, and how one becomes a library.
#pragma once
#include "guest-allocator/runtime/runtime.h"
#include "shm-device/cuda/fat_binary.h"

namespace barcuda::runtime {

// With a context current (linking belongs to one).
CUresult load_library(const fatbin::Wrapper& wrapper, CUlibrary* library);

}  // namespace barcuda::runtime
