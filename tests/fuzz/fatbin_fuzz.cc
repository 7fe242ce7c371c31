// SPDX-License-Identifier: Apache-2.0
// fatbin_fuzz: any bytes are an image; they are refused with a CUresult and a sentence, or give PTX text, and no byte
// outside of them is read; and what is found in an entry piece by piece is in the whole of it. The first byte's low bit
// makes the rest an entry of a container that is otherwise sound, so that decompression is reached.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "shm-device/cuda/fat_binary.h"
#include "shm-device/cuda/fat_binary_reader.h"
#include "soft-gpu/engine.h"
#include "soft-gpu/image.h"

namespace {

// The given bytes as the compressed text of one PTX entry.
std::string contained(const std::uint8_t* data, std::size_t size, bool zstd, std::uint16_t length) {
    using namespace barcuda::fatbin;
    const ContainerHead head{container_magic, 1, sizeof head, sizeof(EntryHead) + size};
    EntryHead entry{};
    entry.kind = ptx;
    entry.head_bytes = sizeof entry;
    entry.target = 75;
    entry.payload_bytes = size;
    entry.packed_bytes = static_cast<std::uint32_t>(size);
    entry.flags = zstd ? flag_zstd : flag_lz4;
    entry.plain_bytes = length;
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    return bytes.append(reinterpret_cast<const char*>(data), size);
}

// An entry that can be unpacked holds what is found in the whole of it, in pieces as well.
void look_through(std::span<const std::byte> image) {
    try {
        for (const auto& entry : barcuda::fatbin::entries(image)) {
            const std::string whole = barcuda::fatbin::bytes_of(entry);
            for (const std::string_view word : {"ab", "vprintf"})
                if (barcuda::fatbin::holds(entry, word) != (whole.find(word) != whole.npos)) std::abort();
        }
    } catch (const barcuda::fatbin::Error&) {}
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
    look_through(std::as_bytes(std::span(exact.get(), image.size())));
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
