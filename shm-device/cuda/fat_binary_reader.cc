// SPDX-License-Identifier: Apache-2.0
// fat_binary_reader.cc: unpacks entries. All their bytes come from another party: each length is checked against what
// is left before it is used, and a decompressed text grows only as fast as the decoder really produces it.
#include "shm-device/cuda/fat_binary_reader.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "base/huge_pages.h"

namespace barcuda::fatbin {
namespace {

// No text of nvcc's is near this; it bounds what a lying header can make us allocate.
constexpr std::uint64_t text_limit = 512u << 20;

[[noreturn]] void broken(const std::string& what) { throw Error{"fat binary: " + what}; }

template <class String> String unpack_lz4(std::span<const std::byte> packed, std::uint64_t size) {
    if (size / 255 > packed.size()) broken("LZ4 text cannot be as long as its header says");
    String text(size, '\0');
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()), text.data(),
                                        static_cast<int>(packed.size()), static_cast<int>(size));
    if (got < 0 || static_cast<std::uint64_t>(got) != size) broken("LZ4 text is damaged");
    return text;
}

// Gives `take` one piece of the text after another, with up to `before` bytes of the pieces before it, until it says
// that it has enough.
template <class Take>
void unpack_zstd(std::span<const std::byte> packed, std::uint64_t size, std::size_t before, Take take) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decoder(ZSTD_createDCtx(), ZSTD_freeDCtx);
    const std::size_t room = ZSTD_DStreamOutSize();  // what the decoder has at once
    const auto buffer = std::make_unique_for_overwrite<char[]>(before + room);
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    std::uint64_t done = 0;
    std::size_t kept = 0;
    for (std::size_t left = 1; left != 0;) {
        ZSTD_outBuffer out{buffer.get() + kept, std::min<std::uint64_t>(room, size - done), 0};
        left = ZSTD_decompressStream(decoder.get(), &out, &in);
        if (ZSTD_isError(left)) broken(std::string("zstd text is damaged: ") + ZSTD_getErrorName(left));
        if (left != 0 && out.pos == 0) broken("zstd text ends early, or is longer than its header says");
        const std::string_view piece(buffer.get(), kept + out.pos);
        if (take(piece)) return;
        done += out.pos;
        kept = std::min(before, piece.size());
        std::memmove(buffer.get(), piece.data() + piece.size() - kept, kept);
    }
    if (done != size) broken("zstd text has another length than its header says");
}

}  // namespace

std::vector<Entry> entries(std::span<const std::byte> container) {
    Reader reader(container);
    std::vector<Entry> found;
    for (Reader::Entry entry; reader.next(entry);) {
        const EntryHead& head = entry.head;
        Entry next{head.kind, head.architecture(), head.flags, entry.payload, 0};
        if (head.flags & (flag_lz4 | flag_zstd)) {
            if (head.packed_bytes > head.payload_bytes) broken("compressed length beyond the entry");
            if (head.plain_bytes > text_limit) broken("text longer than 512 MiB");
            next.payload = next.payload.first(head.packed_bytes);
            next.plain_size = head.plain_bytes;
        }
        found.push_back(next);
    }
    if (reader.broken()) broken(reader.broken());
    return found;
}

std::string bytes_of(const Entry& entry) {
    if (entry.flags & flag_zstd) {
        std::string text;
        unpack_zstd(entry.payload, entry.plain_size, 0, [&](std::string_view piece) {
            text += piece;
            return false;
        });
        return text;
    }
    if (entry.flags & flag_lz4) return unpack_lz4<std::string>(entry.payload, entry.plain_size);
    return {reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size()};
}

bool holds(const Entry& entry, std::string_view word) {
    bool found = false;
    const auto look = [&](std::string_view text) { return found = text.find(word) != text.npos; };
    if (entry.flags & flag_zstd) unpack_zstd(entry.payload, entry.plain_size, word.size() - 1, look);
    else if (entry.flags & flag_lz4) look(unpack_lz4<LargeString>(entry.payload, entry.plain_size));
    else look({reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size()});
    return found;
}

}  // namespace barcuda::fatbin
