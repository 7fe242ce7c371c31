// SPDX-License-Identifier: Apache-2.0
// image.h: turns what a program passes to cuModuleLoadData into PTX text. The first step of the software GPU:
//
//   image (fat binary, PTX text) -> PTX text -> Program (engine.h) -> execute
//
// A CPU can run only PTX; of several PTX entries it takes the newest one that the configured compute capability may
// run. All functions throw soft::Error: CUDA_ERROR_INVALID_IMAGE if it is not an image, CUDA_ERROR_NO_BINARY_FOR_GPU,
// with a list of the entries, if none fits.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace barcuda::soft {

// From a fat binary's container.
std::string select_ptx(std::span<const std::byte> container, int compute_capability);

// `image` in the driver API's form, without a length: a container, nvcc's wrapper around one, or NUL-terminated PTX
// text.
std::string ptx_of_image(const void* image, int compute_capability);

// The same for bytes of known length (a file, cuLinkAddData).
std::string ptx_of_bytes(std::span<const std::byte> bytes, int compute_capability);

}  // namespace barcuda::soft
