// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/vm_stream.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace barcuda {
namespace {

// QEMU's numbers.
constexpr std::string_view magic("QEVM\0\0\0\3", 8), ram("\3ram\0\0\0\0\0\0\0\4", 12);
constexpr std::byte section_start{1};
constexpr std::size_t section_head = 5;              // its kind, and its number
constexpr std::uint64_t is_list = 4, flags = 0xfff;  // in the first word of the RAM

struct VmStream {
    std::span<std::byte> bytes;
    std::size_t at = 0;

    bool has(std::size_t n) const { return bytes.size() - at >= n; }
    std::string_view text(std::size_t n) {
        at += n;
        return {reinterpret_cast<const char*>(bytes.data()) + at - n, n};
    }
    std::uint64_t word() {
        std::uint64_t value = 0;
        for (const char c : text(8)) value = value << 8 | static_cast<unsigned char>(c);
        return value;
    }
};

bool is_of(std::string_view block, const std::string& memory) {  // such as 0000:00:01.0/barcuda
    return block.size() > memory.size() && block.ends_with(memory) && block[block.size() - memory.size() - 1] == '/';
}

}  // namespace

Failure forget_addresses(std::span<std::byte> begun, const std::vector<std::string>& memories, std::uint64_t size,
                         unsigned& changed) {
    constexpr const char* unknown = "QEMU's stream has a form that this build does not know";
    changed = 0;
    VmStream stream{begun};
    if (!stream.has(magic.size()) || stream.text(magic.size()) != magic) return unknown;
    const std::string_view all(reinterpret_cast<const char*>(begun.data()), begun.size());
    const std::size_t found = all.find(ram, magic.size() + section_head);
    if (found == std::string_view::npos || begun[found - section_head] != section_start) return unknown;
    stream.at = found + ram.size();
    if (!stream.has(8)) return unknown;
    const std::uint64_t first = stream.word();
    if ((first & flags) != is_list) return unknown;
    for (std::uint64_t left = first & ~flags; left != 0;) {
        if (!stream.has(1)) return unknown;
        const auto length = static_cast<std::size_t>(begun[stream.at++]);
        if (!stream.has(length + 16)) return unknown;
        const std::string_view block = stream.text(length);
        const std::uint64_t bytes = stream.word();
        if (bytes == 0 || bytes > left) return unknown;
        left -= bytes;
        if (bytes == size && std::ranges::any_of(memories, [&](const auto& name) { return is_of(block, name); })) {
            std::memset(begun.data() + stream.at, 0, 8);
            ++changed;
        }
        stream.at += 8;
    }
    return {};
}

}  // namespace barcuda
