// SPDX-License-Identifier: Apache-2.0
// arena.cc: links an object of the compiler into the arena. The objects are our own compiler's: code, constants, and
// relative references between them. Anything else is rejected, and the kernel is interpreted.
#include "soft-gpu/ptx/arena.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace barcuda::soft {
namespace {

constexpr std::size_t page = 4096;
std::size_t up(std::size_t value, std::size_t align) { return (value + align - 1) / align * align; }

std::mutex mutex;
std::uintptr_t arena = 0;
auto& used = *new std::map<std::size_t, std::size_t>;  // offset -> bytes; never destroyed: streams outlive main()

std::byte* room(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    if (arena == 0) return nullptr;
    std::size_t at = 0;
    for (const auto& [offset, size] : used) {
        if (offset - at >= bytes) break;
        at = offset + size;
    }
    if (arena_bytes - at < bytes) return nullptr;
    used[at] = bytes;
    return reinterpret_cast<std::byte*>(arena + at);
}

struct ElfObject {
    std::span<const std::byte> bytes;
    const Elf64_Ehdr& header;
    template <class T> const T* at(std::size_t offset, std::size_t count = 1) const {
        if (offset > bytes.size() || (bytes.size() - offset) / sizeof(T) < count) return nullptr;
        return reinterpret_cast<const T*>(bytes.data() + offset);
    }
};

// Adds `symbol + addend - place`, or the whole address, at `place`.
bool relocate(std::byte* place, unsigned type, std::uint64_t symbol, std::int64_t addend) {
    const std::uint64_t value = symbol + static_cast<std::uint64_t>(addend);
    const auto relative = static_cast<std::int64_t>(value - reinterpret_cast<std::uintptr_t>(place));
    switch (type) {
        case R_X86_64_PC32:
        case R_X86_64_PLT32: {
            const auto short_one = static_cast<std::int32_t>(relative);
            if (short_one != relative) return false;
            std::memcpy(place, &short_one, 4);
            return true;
        }
        case R_X86_64_PC64: std::memcpy(place, &relative, 8); return true;
        case R_X86_64_64: std::memcpy(place, &value, 8); return true;
        default: return false;
    }
}

}  // namespace

std::uintptr_t reserve_arena() {
    const std::lock_guard lock(mutex);
    if (arena != 0) return arena;
    void* const there = mmap(nullptr, 2 * arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (there == MAP_FAILED) return 0;
    const auto begin = reinterpret_cast<std::uintptr_t>(there);
    arena = up(begin, arena_bytes);
    if (arena != begin) munmap(there, arena - begin);
    munmap(reinterpret_cast<void*>(arena + arena_bytes), begin + arena_bytes - arena);
    return arena;
}

void* place_object(std::span<const std::byte> object, std::byte** memory) {
    *memory = nullptr;
    if (object.size() < sizeof(Elf64_Ehdr)) return nullptr;
    const ElfObject o{object, *reinterpret_cast<const Elf64_Ehdr*>(object.data())};
    const auto& header = o.header;
    const auto* sections = o.at<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 || sections == nullptr)
        return nullptr;
    std::vector<std::size_t> offsets(header.e_shnum, ~std::size_t{0});
    std::size_t total = 0;
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        const auto& s = sections[i];
        if ((s.sh_flags & SHF_ALLOC) == 0 || s.sh_type != SHT_PROGBITS)
            continue;  // unwinding tables, which are not needed here
        if (o.at<std::byte>(s.sh_offset, s.sh_size) == nullptr) return nullptr;
        total = up(total, std::max<std::size_t>(s.sh_addralign, 1));
        offsets[i] = total;
        total += s.sh_size;
    }
    total = up(total, page);
    std::byte* const to = total == 0 ? nullptr : room(total);
    if (to == nullptr) return nullptr;
    *memory = to;
    const auto give_up = [&] {
        give_back(to);
        *memory = nullptr;
        return nullptr;
    };
    if (mprotect(to, total, PROT_READ | PROT_WRITE) != 0) return give_up();
    for (unsigned i = 0; i < header.e_shnum; ++i)
        if (offsets[i] != ~std::size_t{0} && sections[i].sh_size != 0)
            std::memcpy(to + offsets[i], o.at<std::byte>(sections[i].sh_offset), sections[i].sh_size);
    const Elf64_Sym* symbols = nullptr;
    std::size_t symbol_count = 0;
    const char* names = nullptr;
    for (unsigned i = 0; i < header.e_shnum; ++i)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header.e_shnum) {
            symbol_count = sections[i].sh_size / sizeof(Elf64_Sym);
            symbols = o.at<Elf64_Sym>(sections[i].sh_offset, symbol_count);
            names = o.at<char>(sections[sections[i].sh_link].sh_offset);
        }
    if (symbols == nullptr || names == nullptr) return give_up();
    const auto address = [&](const Elf64_Sym& s) -> std::uint64_t {
        if (s.st_shndx >= header.e_shnum || offsets[s.st_shndx] == ~std::size_t{0}) return 0;
        return reinterpret_cast<std::uintptr_t>(to + offsets[s.st_shndx]) + s.st_value;
    };
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        const auto& s = sections[i];
        if (s.sh_type != SHT_RELA || s.sh_info >= header.e_shnum || offsets[s.sh_info] == ~std::size_t{0}) continue;
        const auto count = s.sh_size / sizeof(Elf64_Rela);
        const auto* all = o.at<Elf64_Rela>(s.sh_offset, count);
        for (std::size_t k = 0; all != nullptr && k < count; ++k) {
            const auto which = ELF64_R_SYM(all[k].r_info);
            const auto value = which < symbol_count ? address(symbols[which]) : 0;
            if (value == 0 || all[k].r_offset + 8 > up(sections[s.sh_info].sh_size + 4, 8) ||
                !relocate(to + offsets[s.sh_info] + all[k].r_offset, ELF64_R_TYPE(all[k].r_info), value,
                          all[k].r_addend))
                return give_up();
        }
    }
    void* run = nullptr;
    for (std::size_t i = 0; i < symbol_count; ++i)
        if (std::string_view(names + symbols[i].st_name) == "run") run = reinterpret_cast<void*>(address(symbols[i]));
    if (run == nullptr) return give_up();
    for (std::size_t at = 0; at < total; at += page)  // a worker's cage allows one page at a time
        if (mprotect(to + at, page, PROT_READ | PROT_EXEC) != 0) return give_up();
    return run;
}

void give_back(std::byte* memory) {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex);
    const auto found = used.find(reinterpret_cast<std::uintptr_t>(memory) - arena);
    if (found == used.end()) return;
    mprotect(memory, found->second, PROT_NONE);
    madvise(memory, found->second, MADV_DONTNEED);
    used.erase(found);
}

}  // namespace barcuda::soft
