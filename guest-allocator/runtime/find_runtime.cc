// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/runtime/find_runtime.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace barcuda::runtime {

ProgramFile::ProgramFile(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0) {
        void* const at = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            data_ = static_cast<const char*>(at);
            bytes_ = status.st_size;
        }
    }
    if (fd >= 0) close(fd);
}

ProgramFile::~ProgramFile() {
    if (data_) munmap(const_cast<char*>(data_), bytes_);
}

std::span<const Elf64_Phdr> ProgramFile::segments() const {
    if (bytes_ < sizeof(Elf64_Ehdr) || memcmp(data_, ELFMAG, SELFMAG)) return {};
    const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(data_);
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff % alignof(Elf64_Phdr) || header.e_phoff > bytes_ ||
        header.e_phnum > (bytes_ - header.e_phoff) / sizeof(Elf64_Phdr))
        return {};
    return {reinterpret_cast<const Elf64_Phdr*>(data_ + header.e_phoff), header.e_phnum};
}

namespace {

// An ELF file's sections; what it says of itself is believed only as far as the file goes.
class Sections {
  public:
    explicit Sections(const ProgramFile& file) : bytes_(file.bytes()) {
        const auto header = read<Elf64_Ehdr>(0, 1);
        if (header.empty() || memcmp(header[0].e_ident, ELFMAG, SELFMAG) || header[0].e_shentsize != sizeof(Elf64_Shdr))
            return;
        headers_ = read<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
        if (header[0].e_shstrndx < headers_.size()) names_ = read<char>(headers_[header[0].e_shstrndx]);
    }
    std::span<const Elf64_Shdr> all() const { return headers_; }
    const Elf64_Shdr* find(std::string_view name) const {
        const auto found = std::ranges::find_if(headers_, [&](auto& s) { return text(names_, s.sh_name) == name; });
        return found == headers_.end() ? nullptr : &*found;
    }
    template <class T> std::span<const T> read(const Elf64_Shdr& section) const {
        return section.sh_type == SHT_NOBITS ? std::span<const T>{}
                                             : read<T>(section.sh_offset, section.sh_size / sizeof(T));
    }
    bool holds(const Elf64_Shdr* section, std::string_view text) const {
        const auto bytes = section ? read<char>(*section) : std::span<const char>{};
        return !bytes.empty() && memmem(bytes.data(), bytes.size(), text.data(), text.size());
    }
    bool holds(const char* section, std::string_view text) const { return holds(find(section), text); }
    static std::string_view text(std::span<const char> table, std::size_t at) {
        if (table.empty() || table.back() || at >= table.size()) return {};
        return table.data() + at;
    }

  private:
    template <class T> std::span<const T> read(std::size_t offset, std::size_t count) const {
        if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T) || offset % alignof(T)) return {};
        return {reinterpret_cast<const T*>(bytes_.data() + offset), count};
    }
    std::span<const char> bytes_, names_;
    std::span<const Elf64_Shdr> headers_;
};

// What a file exports and imports, found as the loader finds it, without a look at every name. Libraries have hundreds
// of thousands of names, and a program that imports PyTorch opens hundreds of libraries.
class Dynamic {
  public:
    explicit Dynamic(const Sections& sections) {
        for (const Elf64_Shdr& s : sections.all()) {
            if (s.sh_type == SHT_DYNSYM && s.sh_link < sections.all().size()) {
                symbols_ = sections.read<Elf64_Sym>(s);
                names_ = sections.read<char>(sections.all()[s.sh_link]);
            }
            if (s.sh_type == SHT_GNU_HASH) words_ = sections.read<std::uint32_t>(s);
        }
        // First come the number of buckets, the first symbol that is exported, the Bloom filter's words, and its shift.
        constexpr std::size_t head = 4;
        if (words_.size() < head) return;
        const std::size_t buckets = words_[0], filter = 2 * std::size_t{words_[2]};
        first_ = words_[1];
        if (buckets == 0 || filter > words_.size() - head || buckets > words_.size() - head - filter) return;
        buckets_ = words_.subspan(head + filter, buckets);
        chains_ = words_.subspan(head + filter + buckets);
    }
    bool known() const { return !buckets_.empty(); }
    bool exports(std::string_view name) const {
        std::uint32_t hash = 5381;
        for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
        for (std::size_t i = buckets_[hash % buckets_.size()]; i >= first_ && i - first_ < chains_.size(); ++i) {
            const std::uint32_t chain = chains_[i - first_];
            if ((chain | 1) == (hash | 1) && is(i, name)) return true;
            if (chain & 1) break;
        }
        return false;
    }
    bool imports(std::string_view name) const {
        for (std::size_t i = 1; i < symbols_.size(); ++i)
            if (symbols_[i].st_shndx == SHN_UNDEF && is(i, name)) return true;
        return false;
    }

  private:
    bool is(std::size_t symbol, std::string_view name) const {
        return symbol < symbols_.size() && Sections::text(names_, symbols_[symbol].st_name) == name;
    }
    std::span<const Elf64_Sym> symbols_;
    std::span<const char> names_;
    std::span<const std::uint32_t> words_, buckets_, chains_;
    std::size_t first_ = 0;
};

constexpr std::string_view registers = "__cudaRegisterFatBinary", allocates = "cudaMalloc";
bool is_runtime(const std::vector<RuntimeFunction>& functions) {
    const auto has = [&](std::string_view name) {
        return std::ranges::find(functions, name, &RuntimeFunction::name) != functions.end();
    };
    return has(registers) && has(allocates);
}

// From a symbol table.
std::vector<RuntimeFunction> named(const Sections& sections, const Elf64_Shdr& table) {
    std::vector<RuntimeFunction> functions, runtime;
    if (table.sh_link >= sections.all().size()) return {};
    const auto names = sections.read<char>(sections.all()[table.sh_link]);
    for (const Elf64_Sym& s : sections.read<Elf64_Sym>(table))
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF && s.st_shndx < sections.all().size())
            functions.push_back({Sections::text(names, s.st_name), s.st_value, s.st_shndx});
    std::ranges::sort(functions, {}, &RuntimeFunction::address);
    for (auto f = functions.begin(); f != functions.end(); ++f) {
        if (!f->name.starts_with("cuda") && !f->name.starts_with("__cuda")) continue;
        const Elf64_Shdr& home = sections.all()[f->room];  // as kept above
        const auto next = std::find_if(f, functions.end(), [f](auto& g) { return g.address != f->address; });
        const std::uintptr_t end = home.sh_addr + home.sh_size;
        const std::uintptr_t last = next == functions.end() ? end : std::min<std::uintptr_t>(end, next->address);
        runtime.push_back({f->name, f->address, last - f->address});
    }
    return runtime;
}

bool matches(const CodeShape& shape, std::span<const char> code, std::size_t at) {
    if (at > code.size() || shape.bytes > code.size() - at) return false;
    std::uint64_t hash = 0xcbf29ce484222325;
    const Hole* hole = shape.holes;
    for (unsigned i = 0; i < shape.bytes; ++i) {
        while (hole->end && i >= hole->end) ++hole;
        const bool filled = hole->end && i >= hole->begin;
        hash = (hash ^ (filled ? 0 : static_cast<unsigned char>(code[at + i]))) * 0x100000001b3;
    }
    return hash == shape.hash;
}

// The only place that looks so; none if there are two.
bool find_only(const CodeShape& shape, std::span<const char> code, std::size_t& where) {
    unsigned found = 0;
    const char *from = code.data(), *const end = from + code.size();
    while (from < end && found < 2) {
        const auto* const hit = static_cast<const char*>(
            memmem(from, static_cast<std::size_t>(end - from), shape.anchor.data(), shape.anchor.size()));
        if (!hit) break;
        from = hit + 1;
        const auto at = static_cast<std::size_t>(hit - code.data());
        if (at >= shape.anchor_at && matches(shape, code, at - shape.anchor_at)) {
            where = at - shape.anchor_at;
            ++found;
        }
    }
    return found == 1;
}

// The functions of a runtime in code at `address`. They are in the order of the archive, in a few pieces: when one is
// found, most of the others are known. Small functions look alike, and are known only by their place between two of the
// same piece.
std::vector<RuntimeFunction> shaped(std::span<const CodeShape> runtime, std::uintptr_t address,
                                    std::span<const char> code) {
    constexpr std::size_t nowhere = ~std::size_t{0};
    constexpr unsigned telling = 32;  // bytes
    unsigned missed = 0;
    std::vector<std::size_t> distances(runtime.size(), nowhere), pieces;
    for (std::size_t i = 0; i < runtime.size(); ++i) {
        const CodeShape& shape = runtime[i];
        if (shape.bytes < telling) continue;
        const auto fits = [&](std::size_t d) { return matches(shape, code, shape.offset + d); };
        std::size_t at = 0;
        if (const auto known = std::ranges::find_if(pieces, fits); known != pieces.end()) distances[i] = *known;
        else if (find_only(shape, code, at)) pieces.push_back(distances[i] = at - shape.offset);
        else if (++missed > 1 && pieces.empty()) return {};
    }
    std::vector<RuntimeFunction> functions;
    std::size_t before = nowhere;
    for (std::size_t i = 0; i < runtime.size(); ++i) {
        const CodeShape& shape = runtime[i];
        if (shape.bytes < telling) {
            const auto after =
                std::find_if(distances.begin() + i, distances.end(), [](auto d) { return d != nowhere; });
            if (after == distances.end() || (before != nowhere && *after != before)) continue;
            if (matches(shape, code, shape.offset + *after)) distances[i] = *after;
        }
        if (distances[i] == nowhere) continue;
        before = distances[i];
        functions.push_back({shape.name, address + shape.offset + before, (shape.bytes + 15u) / 16 * 16});
    }
    return functions.size() * 20 >= runtime.size() * 19 ? functions : std::vector<RuntimeFunction>{};
}

}  // namespace

std::vector<RuntimeFunction> find_shapes(const ProgramFile& file,
                                         std::span<const std::span<const CodeShape>> runtimes) {
    const Sections sections(file);
    const Dynamic dynamic(sections);
    const bool opens =
        dynamic.known() ? dynamic.imports("dlopen") || dynamic.exports("dlopen") : sections.holds(".dynstr", "dlopen");
    // What imports a runtime has none of its own, or none that it uses.
    if (!opens || dynamic.imports(registers)) return {};
    std::size_t whole = 0;  // functions of the runtime that was found
    const auto look = [&](std::size_t most) {
        for (const Elf64_Shdr& section : sections.all()) {
            if (!(section.sh_flags & SHF_EXECINSTR)) continue;
            const auto code = sections.read<char>(section);
            const auto end = code.last(std::min(code.size(), most));
            for (const auto runtime : runtimes)
                if (auto functions = shaped(runtime, section.sh_addr + (code.size() - end.size()), end);
                    is_runtime(functions)) {
                    whole = runtime.size();
                    return functions;
                }
        }
        return std::vector<RuntimeFunction>();
    };
    // Linkers put archives behind the file's own code: of a library of a gigabyte the rest need not be read.
    constexpr std::size_t near_the_end = 4 << 20;
    if (auto functions = look(near_the_end); !functions.empty() && functions.size() == whole) return functions;
    // A runtime opens the driver by its name. Few files hold that, and in those it is worth to look long.
    return sections.holds(".rodata", "libcuda.so.1") ? look(~std::size_t{0}) : std::vector<RuntimeFunction>();
}

std::vector<RuntimeFunction> find_runtime(const ProgramFile& file) {
    const Sections sections(file);
    const Dynamic dynamic(sections);
    const auto may_have = [&](const Elf64_Shdr& table) {
        if (table.sh_type == SHT_DYNSYM && dynamic.known()) return dynamic.exports(registers);
        return table.sh_link < sections.all().size() && sections.holds(&sections.all()[table.sh_link], registers);
    };
    // A library may have been stripped of local symbols only (NVIDIA's are), and libcudart itself, which a program has
    // opened by its path, exports what it has.
    for (const Elf64_Word table : {SHT_SYMTAB, SHT_DYNSYM})
        for (const Elf64_Shdr& section : sections.all())
            if (section.sh_type == table && may_have(section))
                if (auto functions = named(sections, section); is_runtime(functions)) return functions;
    return find_shapes(file);
}

}  // namespace barcuda::runtime
