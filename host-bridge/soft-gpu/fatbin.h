// fatbin.h: from what a program hands to cuModuleLoadData to PTX text. The first step of the software GPU:
//
//   fat binary -> PTX text -> Program (engine.h) -> execute
//
// nvcc 11 to 13 writes a container of entries: PTX (plain, LZ4 or zstd) and machine code, each for one architecture. A
// CPU can run the PTX alone; of several PTX entries the newest that the configured compute capability may run is taken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace barcuda::soft {

struct FatEntry {
    enum Kind : std::uint16_t { ptx = 1, elf = 2 };
    std::uint16_t kind = 0;
    int architecture = 0;  // 75 is sm_75
    std::uint64_t flags = 0;
    std::span<const std::byte> payload;  // as stored: perhaps compressed
    std::uint64_t plain_size = 0;        // bytes after decompression; 0 if it is stored plain
};

// The container's entries. Throws Error{CUDA_ERROR_INVALID_IMAGE} where a length leads outside of `container`.
std::vector<FatEntry> fat_entries(std::span<const std::byte> container);

// An entry, decompressed, whole.
std::string bytes_of(const FatEntry& entry);

// An entry's text, decompressed, without the padding behind it.
std::string text_of(const FatEntry& entry);

// Throws Error{CUDA_ERROR_NO_BINARY_FOR_GPU} naming what there is, if no entry fits.
std::string select_ptx(std::span<const std::byte> container, int compute_capability);

// `image` as the driver API has it, without a length: a container, nvcc's wrapper around one, or NUL-terminated PTX
// text.
std::string ptx_of_image(const void* image, int compute_capability);

// The same for bytes of known length (a file, cuLinkAddData).
std::string ptx_of_bytes(std::span<const std::byte> bytes, int compute_capability);

}  // namespace barcuda::soft
