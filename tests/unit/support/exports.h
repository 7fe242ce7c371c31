// SPDX-License-Identifier: Apache-2.0
// exports.h: what a shared library exports, read from its file, and where the CUDA toolkit keeps its own.
#pragma once
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace barcuda::test {

// The functions that a shared library defines, from its dynamic symbol table; empty if there is no such file.
inline std::set<std::string> exports_of(const std::filesystem::path& path) {
    std::set<std::string> names;
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    if (none || size < sizeof(Elf64_Ehdr)) return names;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return names;
    const char* const bytes = static_cast<const char*>(mapped);
    auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
    auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes + sections[i].sh_offset);
        const char* text = bytes + sections[sections[i].sh_link].sh_offset;
        for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); s++)
            if (symbols[s].st_shndx != SHN_UNDEF &&
                (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC || ELF64_ST_TYPE(symbols[s].st_info) == STT_GNU_IFUNC))
                names.insert(text + symbols[s].st_name);
    }
    munmap(mapped, size);
    return names;
}

// A file of the CUDA toolkit.
inline std::filesystem::path toolkit(const char* file) {
    const char* home = std::getenv("CUDA_HOME");
    return std::filesystem::path(home ? home : "/usr/local/cuda") / file;
}

}  // namespace barcuda::test
