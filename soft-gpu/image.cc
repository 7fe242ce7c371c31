// SPDX-License-Identifier: Apache-2.0
// image.cc: chooses the PTX text of an image that the software GPU runs. The reader of fat binaries checks lengths.
#include "soft-gpu/image.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "shm-device/cuda/fat_binary_reader.h"
#include "soft-gpu/engine.h"

namespace barcuda::soft {
namespace {

// An image that the reader of fat binaries refuses is an invalid image for the driver.
template <class Read> auto reading(Read read) {
    try {
        return read();
    } catch (const fatbin::Error& error) { throw Error{CUDA_ERROR_INVALID_IMAGE, error.message}; }
}

bool looks_like_text(char c) { return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t' || c == '\r'; }

[[noreturn]] void only_machine_code(const std::string& what) {
    throw Error{CUDA_ERROR_NO_BINARY_FOR_GPU,
                what +
                    " holds machine code for a GPU and no PTX, which is what the software GPU runs: build it with "
                    "PTX (nvcc -gencode arch=compute_75,code=compute_75, or -arch=compute_90)"};
}

std::string text_of(const fatbin::Entry& entry) {
    std::string text = fatbin::bytes_of(entry);
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

std::string select(std::span<const std::byte> container, int compute_capability) {
    const fatbin::Entry* best = nullptr;
    std::string found;
    const auto entries = fatbin::entries(container);
    bool any_ptx = false;
    for (const fatbin::Entry& entry : entries) {
        const bool is_ptx = entry.kind == fatbin::ptx;
        any_ptx |= is_ptx;
        found += std::string(found.empty() ? "" : ", ") +
                 (is_ptx                      ? "PTX"
                  : entry.kind == fatbin::elf ? "code"
                                              : "other") +
                 " for sm_" + std::to_string(entry.architecture);
        if (is_ptx && entry.architecture <= compute_capability && (!best || entry.architecture > best->architecture))
            best = &entry;
    }
    if (best) return text_of(*best);
    if (!any_ptx) only_machine_code("the fat binary (" + (found.empty() ? "empty" : found) + ")");
    throw Error{CUDA_ERROR_NO_BINARY_FOR_GPU, "the fat binary (" + found + ") has no PTX for sm_" +
                                                  std::to_string(compute_capability) +
                                                  " or older; BARCUDA_SOFT_CC sets what the software GPU is"};
}

}  // namespace

std::string select_ptx(std::span<const std::byte> container, int compute_capability) {
    return reading([&] { return select(container, compute_capability); });
}

std::string ptx_of_bytes(std::span<const std::byte> bytes, int compute_capability) {
    if (bytes.empty()) throw Error{CUDA_ERROR_INVALID_IMAGE, "the image is empty"};
    if (bytes.size() >= 4) {
        std::uint32_t magic;
        std::memcpy(&magic, bytes.data(), sizeof magic);
        if (magic == fatbin::container_magic) return select_ptx(bytes, compute_capability);
        if (magic == std::bit_cast<std::uint32_t>(std::array{'\x7f', 'E', 'L', 'F'}))
            only_machine_code("the ELF image");
    }
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text.resize(std::min(text.find('\0'), text.size()));
    if (text.empty() || !looks_like_text(text[0]) || text.find(".version") == text.npos)
        throw Error{CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX text nor a fat binary"};
    return text;
}

std::string ptx_of_image(const void* image, int compute_capability) {
    std::uint32_t magic = 0;  // read bytewise: text may be shorter than four bytes
    const auto* bytes = static_cast<const unsigned char*>(image);
    for (int i = 0; i < 4; ++i) {
        magic |= std::uint32_t{bytes[i]} << (8 * i);
        if (bytes[i] == 0) break;
    }
    if (magic == fatbin::wrapper_magic) {
        fatbin::Wrapper wrapper;
        std::memcpy(&wrapper, image, sizeof wrapper);
        if (!wrapper.container) throw Error{CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper without data"};
        return ptx_of_image(wrapper.container, compute_capability);
    }
    const auto at = static_cast<const std::byte*>(image);
    if (magic == fatbin::container_magic) {
        fatbin::ContainerHead head;
        std::memcpy(&head, image, sizeof head);
        if (head.body_bytes > (std::uint64_t{1} << 40))
            throw Error{CUDA_ERROR_INVALID_IMAGE, "fat binary: longer than any memory"};
        return select_ptx({at, head.head_bytes + head.body_bytes}, compute_capability);
    }
    return ptx_of_bytes({at, std::strlen(static_cast<const char*>(image))}, compute_capability);
}

}  // namespace barcuda::soft
