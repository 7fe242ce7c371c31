// SPDX-License-Identifier: Apache-2.0
// image.h: from what a program hands to cuModuleLoadData to PTX text. The first step of the software GPU:
//
//   image (fat binary, PTX text) -> PTX text -> Program (engine.h) -> execute
//
// A CPU can run the PTX alone; of several PTX entries the newest that the configured compute capability may run is
// taken. All throw soft::Error: CUDA_ERROR_INVALID_IMAGE for what is no image, CUDA_ERROR_NO_BINARY_FOR_GPU naming what
// there is where nothing fits.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace barcuda::soft {

// Of a fat binary's container.
std::string select_ptx(std::span<const std::byte> container, int compute_capability);

// `image` as the driver API has it, without a length: a container, nvcc's wrapper around one, or NUL-terminated PTX
// text.
std::string ptx_of_image(const void* image, int compute_capability);

// The same for bytes of known length (a file, cuLinkAddData).
std::string ptx_of_bytes(std::span<const std::byte> bytes, int compute_capability);

}  // namespace barcuda::soft
