// SPDX-License-Identifier: Apache-2.0
// fatbin_fuzz: any bytes are an image; they are refused with a CUresult and a sentence, or give PTX text, and no byte
// outside of them is read. The first byte's low bit makes the rest an entry of a container that is otherwise sound, so
// that decompression is reached.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "host-bridge/soft-gpu/engine.h"
#include "host-bridge/soft-gpu/image.h"

namespace {

template <class T> void put(std::string& to, std::size_t at, T value) {
    std::memcpy(to.data() + at, &value, sizeof value);
}

// The given bytes as the compressed text of one PTX entry.
std::string contained(const std::uint8_t* data, std::size_t size, bool zstd, std::uint16_t length) {
    std::string bytes(16 + 64, '\0');
    put<std::uint32_t>(bytes, 0, 0xBA55ED50);
    put<std::uint16_t>(bytes, 4, 1);
    put<std::uint16_t>(bytes, 6, 16);
    put<std::uint64_t>(bytes, 8, 64 + size);
    put<std::uint16_t>(bytes, 16, 1);
    put<std::uint32_t>(bytes, 16 + 4, 64);
    put<std::uint64_t>(bytes, 16 + 8, size);
    put<std::uint32_t>(bytes, 16 + 16, static_cast<std::uint32_t>(size));
    put<std::uint32_t>(bytes, 16 + 28, 75);
    put<std::uint64_t>(bytes, 16 + 40, zstd ? 0x8000 : 0x2000);
    put<std::uint64_t>(bytes, 16 + 56, length);
    return bytes.append(reinterpret_cast<const char*>(data), size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace barcuda::soft;
    if (size < 3) return 0;
    std::string image(reinterpret_cast<const char*>(data + 1), size - 1);
    if (data[0] & 1) {
        const auto length = static_cast<std::uint16_t>(data[1] | data[2] << 8);
        image = contained(data + 3, size - 3, data[0] & 2, length);
    }
    // On the heap and exactly as long: a read beyond it is seen.
    const std::unique_ptr<char[]> exact(new char[image.size()]);
    std::memcpy(exact.get(), image.data(), image.size());
    try {
        const std::string text = ptx_of_bytes(std::as_bytes(std::span(exact.get(), image.size())), 90);
        if (text.find('\0') != text.npos) std::abort();
    } catch (const Error& error) {
        if ((error.code != CUDA_ERROR_INVALID_IMAGE && error.code != CUDA_ERROR_NO_BINARY_FOR_GPU) ||
            error.message.empty()) {
            std::fprintf(stderr, "refused with %d and '%s'\n", error.code, error.message.c_str());
            std::abort();
        }
    }
    return 0;
}
