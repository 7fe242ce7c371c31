// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/births/variables.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
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

constexpr std::string_view white = " \t\r\n";

// Without comments, which may have anything in them.
std::string without_comments(std::string_view text) {
    std::string bare;
    bare.reserve(text.size());
    while (!text.empty()) {
        std::size_t bytes = std::min(text.find_first_of("/\""), text.size());
        bare += text.substr(0, bytes);
        text.remove_prefix(bytes);
        if (text.empty()) break;
        const bool line = text.starts_with("//"), block = text.starts_with("/*"), quoted = text.front() == '"';
        const std::size_t end = line ? text.find('\n') : block ? text.find("*/", 2) : quoted ? text.find('"', 1) : 0;
        bytes = end == text.npos ? text.size() : end + (block ? 2 : line ? 0 : 1);
        if (quoted || !(line || block)) bare += text.substr(0, bytes);
        else bare += ' ';
        text.remove_prefix(bytes);
    }
    return bare;
}

// The names of one declaration, from behind its `.global`.
void read_names(std::string_view text, CodeContents& contents) {
    // .align 4 .v2 .u32 one = 5, two[2] = {1, 2};
    const auto skip = [&](std::string_view which) {
        text.remove_prefix(std::min(text.find_first_not_of(which), text.size()));
    };
    for (skip(white); text.starts_with('.'); skip(white)) {
        text.remove_prefix(std::min(text.find_first_of(white), text.size()));
        skip(" \t\r\n0123456789");  // of .align
    }
    while (!text.empty()) {
        skip(white);
        const std::string_view name = text.substr(0, text.find_first_of(" \t\r\n[=;,{}"));
        if (name.empty()) return;
        contents.variables.emplace(name);
        int depth = 0;  // of brackets, in which a comma separates no names
        for (; !text.empty() && (depth > 0 || (text.front() != ',' && text.front() != ';')); text.remove_prefix(1))
            depth += text.front() == '{' ? 1 : text.front() == '}' ? -1 : 0;
        if (text.empty() || text.front() == ';') return;
        text.remove_prefix(1);
    }
}

// A declaration names its state space as a word of its own; an instruction has it inside (ld.global.u32).
void read_ptx(std::string_view code, CodeContents& contents) {
    constexpr std::string_view space = ".global";
    const std::string bare = without_comments(code);
    const std::string_view text = bare;
    for (std::size_t at = 0; (at = text.find(space, at)) != text.npos;) {
        const bool begins = at == 0 || has(" \t\r\n;}", text.substr(at - 1, 1));
        at += space.size();
        if (begins && at < text.size() && has(white, text.substr(at, 1))) read_names(text.substr(at), contents);
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
