// fatbin.cc: reads the container. Everything in it is somebody else's bytes: each length is checked against what is
// left before it is used, and a decompressed text grows only as fast as the decoder really produces it.
#include "host-bridge/soft-gpu/fatbin.h"

#include <cuda.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "host-bridge/soft-gpu/engine.h"

namespace barcuda::soft {
namespace {

constexpr std::uint32_t container_magic = 0xBA55ED50, wrapper_magic = 0x466243b1;
constexpr std::uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
// No text of nvcc's is near this; it bounds what a lying header can make us allocate.
constexpr std::uint64_t text_limit = 512u << 20;

struct ContainerHeader {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t body_bytes;
};
struct EntryHeader {
    std::uint16_t kind, version;
    std::uint32_t header_bytes;
    std::uint64_t payload_bytes;  // padded to 8
    std::uint32_t packed_bytes;   // of them used, if compressed
    std::uint32_t options_at;
    std::uint16_t isa_minor, isa_major;
    std::uint32_t architecture;
    std::uint32_t name_at, name_bytes;
    std::uint64_t flags, reserved, plain_bytes;
};
struct Wrapper {
    std::uint32_t magic, version;
    const void* data;
    const void* others;
};
static_assert(sizeof(ContainerHeader) == 16 && sizeof(EntryHeader) == 64 && sizeof(Wrapper) == 24);

[[noreturn]] void broken(const std::string& what) { throw Error{CUDA_ERROR_INVALID_IMAGE, "fat binary: " + what}; }

template <class T> T read(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

std::string unpack_lz4(std::span<const std::byte> packed, std::uint64_t size) {
    if (size / 255 > packed.size()) broken("LZ4 text cannot be as long as its header says");
    std::string text(size, '\0');
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()), text.data(),
                                        static_cast<int>(packed.size()), static_cast<int>(size));
    if (got < 0 || static_cast<std::uint64_t>(got) != size) broken("LZ4 text is damaged");
    return text;
}

std::string unpack_zstd(std::span<const std::byte> packed, std::uint64_t size) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decoder(ZSTD_createDCtx(), ZSTD_freeDCtx);
    std::string text;
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    for (std::size_t left = 1; left != 0;) {
        const std::size_t before = text.size();
        text.resize(std::min<std::uint64_t>(size, before + (1u << 20)));
        ZSTD_outBuffer out{text.data() + before, text.size() - before, 0};
        left = ZSTD_decompressStream(decoder.get(), &out, &in);
        if (ZSTD_isError(left)) broken(std::string("zstd text is damaged: ") + ZSTD_getErrorName(left));
        text.resize(before + out.pos);
        if (left != 0 && out.pos == 0) broken("zstd text ends early, or is longer than its header says");
    }
    if (text.size() != size) broken("zstd text has another length than its header says");
    return text;
}

bool looks_like_text(char c) { return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t' || c == '\r'; }

[[noreturn]] void only_machine_code(const std::string& what) {
    throw Error{CUDA_ERROR_NO_BINARY_FOR_GPU,
                what +
                    " holds machine code for a GPU and no PTX, which is what the software GPU runs: build it with "
                    "PTX (nvcc -gencode arch=compute_75,code=compute_75, or -arch=compute_90)"};
}

}  // namespace

std::vector<FatEntry> fat_entries(std::span<const std::byte> container) {
    if (container.size() < sizeof(ContainerHeader)) broken("shorter than its header");
    const auto head = read<ContainerHeader>(container);
    if (head.magic != container_magic) broken("wrong magic");
    if (head.header_bytes < sizeof head || head.header_bytes > container.size()) broken("bad header length");
    auto rest = container.subspan(head.header_bytes);
    if (head.body_bytes > rest.size()) broken("cut short");
    rest = rest.first(head.body_bytes);

    std::vector<FatEntry> entries;
    while (rest.size() >= sizeof(EntryHeader)) {
        const auto entry = read<EntryHeader>(rest);
        if (entry.header_bytes < sizeof entry || entry.header_bytes > rest.size()) broken("bad entry header length");
        rest = rest.subspan(entry.header_bytes);
        if (entry.payload_bytes > rest.size()) broken("an entry reaches beyond the end");
        FatEntry found{entry.kind, static_cast<int>(entry.architecture & 0xffff), entry.flags,
                       rest.first(entry.payload_bytes), 0};
        if (entry.flags & (flag_lz4 | flag_zstd)) {
            if (entry.packed_bytes > entry.payload_bytes) broken("compressed length beyond the entry");
            if (entry.plain_bytes > text_limit) broken("text longer than 512 MiB");
            found.payload = found.payload.first(entry.packed_bytes);
            found.plain_size = entry.plain_bytes;
        }
        entries.push_back(found);
        rest = rest.subspan(entry.payload_bytes);
    }
    return entries;
}

std::string bytes_of(const FatEntry& entry) {
    if (entry.flags & flag_zstd) return unpack_zstd(entry.payload, entry.plain_size);
    if (entry.flags & flag_lz4) return unpack_lz4(entry.payload, entry.plain_size);
    return {reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size()};
}

std::string text_of(const FatEntry& entry) {
    std::string text = bytes_of(entry);
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

std::string select_ptx(std::span<const std::byte> container, int compute_capability) {
    const FatEntry* best = nullptr;
    std::string found;
    const auto entries = fat_entries(container);
    bool any_ptx = false;
    for (const FatEntry& entry : entries) {
        const bool is_ptx = entry.kind == FatEntry::ptx;
        any_ptx |= is_ptx;
        found += std::string(found.empty() ? "" : ", ") +
                 (is_ptx                        ? "PTX"
                  : entry.kind == FatEntry::elf ? "code"
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

std::string ptx_of_bytes(std::span<const std::byte> bytes, int compute_capability) {
    if (bytes.empty()) throw Error{CUDA_ERROR_INVALID_IMAGE, "the image is empty"};
    if (bytes.size() >= 4) {
        const auto magic = read<std::uint32_t>(bytes);
        if (magic == container_magic) return select_ptx(bytes, compute_capability);
        if (magic == std::bit_cast<std::uint32_t>(std::array{'\x7f', 'E', 'L', 'F'}))
            only_machine_code("the ELF image");
    }
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text.resize(std::min(text.find('\0'), text.size()));
    if (text.empty() || !looks_like_text(text[0]))
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
    if (magic == wrapper_magic) {
        Wrapper wrapper;
        std::memcpy(&wrapper, image, sizeof wrapper);
        if (!wrapper.data) throw Error{CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper without data"};
        return ptx_of_image(wrapper.data, compute_capability);
    }
    const auto at = static_cast<const std::byte*>(image);
    if (magic == container_magic) {
        ContainerHeader head;
        std::memcpy(&head, image, sizeof head);
        if (head.body_bytes > (std::uint64_t{1} << 40)) broken("longer than any memory");
        return select_ptx({at, head.header_bytes + head.body_bytes}, compute_capability);
    }
    return ptx_of_bytes({at, std::strlen(static_cast<const char*>(image))}, compute_capability);
}

}  // namespace barcuda::soft
