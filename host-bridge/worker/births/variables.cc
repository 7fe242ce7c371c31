// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/births/variables.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "shm-device/cuda/fat_binary_reader.h"

namespace barcuda {
namespace {

using namespace std::string_view_literals;

bool has(std::string_view text, std::string_view word) { return text.find(word) != text.npos; }

void look_for_calls(std::string_view code, CodeContents& contents) {
    // As PTX declares it, and as a table of names has it.
    contents.heap |= has(code, ") malloc\n") || has(code, ") malloc(") || has(code, "\0malloc\0"sv);
    contents.launches |= has(code, "cudaLaunchDevice") || has(code, "cudaCDP2") || has(code, "cudaGraphLaunch");
}

// A variable is declared outside of all functions, so at the begin of a line:
//   .visible .global .align 4 .u32 counter = 5;     .global .align 1 .b8 text[12];
void read_ptx(std::string_view text, CodeContents& contents) {
    constexpr std::string_view before_a_name = " \t", behind_a_name = " \t[=;,";
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        for (const std::string_view linkage : {".visible "sv, ".weak "sv, ".common "sv, ".extern "sv})
            if (line.starts_with(linkage)) line.remove_prefix(linkage.size());
        if (!line.starts_with(".global ") && !line.starts_with(".global\t")) continue;
        line = line.substr(0, line.find_first_of("[=;"));
        while (!line.empty() && has(before_a_name, line.substr(line.size() - 1))) line.remove_suffix(1);
        const std::size_t at = line.find_last_of(before_a_name);
        const std::string_view name = line.substr(at == line.npos ? 0 : at + 1);
        contents.variables.emplace(name.substr(0, name.find_first_of(behind_a_name)));
    }
}

class Elf {
  public:
    explicit Elf(std::span<const std::byte> image) : image_(image) {}

    bool read(CodeContents& contents) const {
        Elf64_Ehdr head;
        if (!get(0, head) || head.e_shentsize != sizeof(Elf64_Shdr)) return false;
        const auto section = [&](std::size_t which, Elf64_Shdr& its) {
            return which < head.e_shnum && get(head.e_shoff + which * sizeof its, its);
        };
        Elf64_Shdr names;
        if (!section(head.e_shstrndx, names)) return false;
        for (std::size_t i = 0; i < head.e_shnum; ++i) {
            Elf64_Shdr table, strings;
            if (!section(i, table)) return false;
            if (table.sh_type != SHT_SYMTAB) continue;
            if (!section(table.sh_link, strings)) return false;
            for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
                Elf64_Sym symbol;
                Elf64_Shdr home;
                if (!get(table.sh_offset + at, symbol)) return false;
                if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
                if (!section(symbol.st_shndx, home)) continue;
                if (text(names, home.sh_name).starts_with(".nv.global"))
                    contents.variables.emplace(text(strings, symbol.st_name));
            }
        }
        return true;
    }

  private:
    template <class T> bool get(std::uint64_t offset, T& value) const {
        if (offset > image_.size() || sizeof value > image_.size() - offset) return false;
        std::memcpy(&value, image_.data() + offset, sizeof value);
        return true;
    }
    std::string_view text(const Elf64_Shdr& strings, std::uint64_t at) const {
        if (strings.sh_offset > image_.size() || strings.sh_size > image_.size() - strings.sh_offset) return {};
        if (at >= strings.sh_size) return {};
        const auto* const first = reinterpret_cast<const char*>(image_.data() + strings.sh_offset + at);
        return {first, strnlen(first, strings.sh_size - at)};
    }
    const std::span<const std::byte> image_;
};

bool read_code(std::string_view code, CodeContents& contents) {
    look_for_calls(code, contents);
    if (code.starts_with("\177ELF")) return Elf(std::as_bytes(std::span(code))).read(contents);
    if (!has(code.substr(0, 4096), ".version")) return false;  // no PTX: after some lines of comments
    read_ptx(code, contents);
    return true;
}

}  // namespace

std::optional<CodeContents> contents_of(std::span<const std::byte> image) {
    CodeContents contents;
    const std::string_view code(reinterpret_cast<const char*>(image.data()), image.size());
    std::uint32_t magic = 0;
    if (image.size() >= sizeof magic) std::memcpy(&magic, image.data(), sizeof magic);
    if (magic != fatbin::container_magic) return read_code(code, contents) ? std::optional(contents) : std::nullopt;
    try {
        for (const fatbin::Entry& entry : fatbin::entries(image))
            if (!read_code(fatbin::bytes_of(entry), contents)) return {};
    } catch (const std::exception&) {  // it cannot be decompressed, or is too large for the host
        return {};
    } catch (const fatbin::Error&) { return {}; }
    return contents;
}

}  // namespace barcuda
