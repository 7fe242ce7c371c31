// static_runtime.cc: programs that carry a CUDA runtime of their own, as nvcc links them unless it is told otherwise
// (-cudart static), and libraries of that kind. Such a copy asks NVIDIA's driver for private tables that nobody else
// has, so it must not run: before any constructor of its file does, each of its public functions becomes a jump to ours
// of the same name. Where they are says the symbol table of the file. A stripped file has none, and its runtime hears
// why it cannot work when it asks for those tables (driver/entry.cc).
//
// The loader tells debuggers about the files that it has mapped and not yet begun by calling an empty function
// (r_brk in <link.h>); that call is ours to take.
//
// What must be known of libcudart_static.a: it is one object, so a file has all of its functions or none; and its
// version shows in what it still has.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "guest-allocator/sanitized.h"

namespace {

// A file of the loader's, for reading; empty if it is stripped. Most are, and every program of a machine comes by here:
// two small reads say so in a few microseconds.
class File {
  public:
    explicit File(const char* path) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat status;
        if (fd >= 0 && has_symbols(fd) && !fstat(fd, &status)) {
            void* const at = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
            if (at != MAP_FAILED) data_ = static_cast<const char*>(at), bytes_ = status.st_size;
        }
        if (fd >= 0) close(fd);
    }
    ~File() {
        if (data_) munmap(const_cast<char*>(data_), bytes_);
    }
    File(const File&) = delete;

    // `count` of them at an offset; null where the file does not hold them.
    template <class T> const T* at(std::size_t offset, std::size_t count = 1) const {
        if (offset > bytes_ || count > (bytes_ - offset) / sizeof(T) || offset % alignof(T)) return nullptr;
        return reinterpret_cast<const T*>(data_ + offset);
    }

  private:
    static bool has_symbols(int fd) {
        Elf64_Ehdr header;
        Elf64_Shdr sections[64];
        if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG))
            return false;
        if (header.e_shnum > std::size(sections)) return true;  // it may have
        const auto bytes = static_cast<ssize_t>(header.e_shnum * sizeof *sections);
        return pread(fd, sections, bytes, header.e_shoff) == bytes &&
               std::ranges::count(sections, sections + header.e_shnum, SHT_SYMTAB, &Elf64_Shdr::sh_type);
    }

    const char* data_ = nullptr;
    std::size_t bytes_ = 0;
};

struct Function {
    std::uintptr_t address;  // in the file's terms
    std::string_view name;   // in the file
};

// The functions that a file defines, by address; none if it is stripped, or no file that we can read.
std::vector<Function> functions_of(const File& file) {
    std::vector<Function> functions;
    const auto* const header = file.at<Elf64_Ehdr>(0);
    if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return functions;
    const auto* const sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    for (unsigned i = 0; sections && i < header->e_shnum; ++i) {
        const Elf64_Shdr& table = sections[i];
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
        const Elf64_Shdr& strings = sections[table.sh_link];
        const std::size_t count = table.sh_size / sizeof(Elf64_Sym);
        const auto* const symbols = file.at<Elf64_Sym>(table.sh_offset, count);
        const char* const text = file.at<char>(strings.sh_offset, strings.sh_size);
        if (!symbols || !text || !strings.sh_size || text[strings.sh_size - 1]) continue;
        for (std::size_t s = 0; s < count; ++s)
            if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC && symbols[s].st_shndx != SHN_UNDEF &&
                symbols[s].st_name < strings.sh_size)
                functions.push_back({symbols[s].st_value, text + symbols[s].st_name});
    }
    std::ranges::sort(functions, {}, &Function::address);
    return functions;
}

bool has(const std::vector<Function>& functions, std::string_view name) {
    return std::ranges::find(functions, name, &Function::name) != functions.end();
}

// Our functions, by name, for the parameters and structures of each version: made by older_names.sh.
struct Ours {
    const char* name;  // null: the end
    void* of[3];       // of CUDA 13 and newer, 12, 11
};

}  // namespace

extern "C" [[gnu::visibility("hidden")]] const Ours barcuda_runtime_names[];
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start;  // the linker's: where this library begins

namespace {

int version_of(const std::vector<Function>& functions) {
    if (has(functions, "cudaGetDeviceProperties_v2")) return 1;  // of that name in CUDA 12 alone
    if (has(functions, "cudaBindTexture")) return 2;             // gone since 12
    return 0;
}

// jmp *0(%rip), and where to.
struct [[gnu::packed]] Jump {
    std::uint8_t code[6] = {0xff, 0x25, 0, 0, 0, 0};
    const void* to;
};

// Code that may be written to for as long as this lives.
class Open {
    static constexpr std::uintptr_t page = 4096;

  public:
    Open(std::uintptr_t from, std::size_t bytes) {
        at_ = reinterpret_cast<void*>(from / page * page);
        bytes_ = from % page + bytes;
        open_ = bytes && mprotect(at_, bytes_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
    }
    ~Open() {
        if (open_) mprotect(at_, bytes_, PROT_READ | PROT_EXEC);
    }
    Open(const Open&) = delete;
    explicit operator bool() const { return open_; }

  private:
    void* at_;
    std::size_t bytes_;
    bool open_;
};

void jump(std::uintptr_t from, const void* to) {
    Jump jump;
    jump.to = to;
    memcpy(reinterpret_cast<void*>(from), &jump, sizeof jump);
}

// Every runtime function of a mapped file becomes a jump to ours.
bool redirect(const dl_phdr_info& object, const std::vector<Function>& functions) {
    const int version = version_of(functions);
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object.dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const Open code(object.dlpi_addr + segment.p_vaddr, segment.p_memsz);
        if (!code) return false;
        const std::uintptr_t end = segment.p_vaddr + segment.p_memsz;
        for (const Ours* ours = barcuda_runtime_names; ours->name; ++ours) {
            const auto f = std::ranges::find(functions, ours->name, &Function::name);
            if (f == functions.end() || f->address < segment.p_vaddr || f->address >= end) continue;
            const auto next = std::find_if(f, functions.end(), [f](auto& g) { return g.address != f->address; });
            const std::size_t room = (next == functions.end() ? end : next->address) - f->address;
            if (room >= sizeof(Jump)) jump(object.dlpi_addr + f->address, ours->of[version]);
        }
    }
    return true;
}

// The files that were mapped when the loader last called, by their addresses. Plain memory of our own: this outlives
// every destructor.
std::vector<std::uintptr_t>& known() {
    static auto* const files = new std::vector<std::uintptr_t>;
    return *files;
}

int look_at(dl_phdr_info* object, std::size_t, void* data) {
    auto& mapped = *static_cast<std::vector<std::uintptr_t>*>(data);
    mapped.push_back(object->dlpi_addr);
    if (std::ranges::count(known(), object->dlpi_addr)) return 0;
    if (object->dlpi_addr == reinterpret_cast<std::uintptr_t>(&__ehdr_start)) return 0;
    const char* const path = *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
    const File file(path);
    const std::vector<Function> functions = functions_of(file);
    if (has(functions, "__cudaRegisterFatBinary") && has(functions, "cudaMalloc") && !redirect(*object, functions))
        fprintf(stderr, "barcuda: the CUDA runtime inside %s cannot be replaced (%s): link it with -cudart=shared\n",
                path, strerror(errno));
    return 0;
}

void loaded() {
    if (_r_debug.r_state != r_debug::RT_CONSISTENT) return;
    const int before = errno;
    std::vector<std::uintptr_t> mapped;
    dl_iterate_phdr(look_at, &mapped);
    known() = std::move(mapped);
    errno = before;
}

// An empty function, which glibc gives 16 bytes like every other; and a debugger has put nothing there.
bool is_empty(const std::uint8_t* code) {
    constexpr std::uint8_t marked[] = {0xf3, 0x0f, 0x1e, 0xfa};  // endbr64
    if (reinterpret_cast<std::uintptr_t>(code) % 16) return false;
    return code[memcmp(code, marked, sizeof marked) ? 0 : sizeof marked] == 0xc3;  // ret
}

bool too_late = false;

// A program that opens this library while it runs (as libcuda.so.1) has begun without it: its runtime is at work
// already.
void watch() {
    if (_r_debug.r_state != r_debug::RT_ADD) return;
    const std::uintptr_t at = _r_debug.r_brk;
    const Open code(at, is_empty(reinterpret_cast<const std::uint8_t*>(at)) ? sizeof(Jump) : 0);
    if (code) jump(at, reinterpret_cast<const void*>(loaded));
    else too_late = true;
}

// Under a debugger, which has taken that call first, only the program itself is served: its constructors come after
// ours.
[[gnu::constructor]] void begin() {
    const auto program = [](dl_phdr_info* object, std::size_t, void* none) { return look_at(object, 0, none), 1; };
    std::vector<std::uintptr_t> none;
    if (too_late) dl_iterate_phdr(program, &none);
}

}  // namespace

#if !BARCUDA_SANITIZED
// The loader resolves this while it relocates this library: every file that the program begins with is mapped then, and
// no constructor has run. One of ours would be too late: those of libraries behind us in the order run first.
extern "C" {
using Nothing = void();
static void nothing() {}
[[gnu::visibility("hidden")]] Nothing* barcuda_resolve() { return watch(), nothing; }
[[gnu::visibility("hidden"), gnu::ifunc("barcuda_resolve")]] void barcuda_resolved_early();
}
namespace {
[[gnu::used]] Nothing* const volatile needs_resolving = barcuda_resolved_early;
}
#endif
