// SPDX-License-Identifier: Apache-2.0
// static_runtime.cc: programs that contain a CUDA runtime of their own, as nvcc links them by default (-cudart static),
// and libraries of that kind, among them NVIDIA's own; and NVIDIA's libcudart, if a program opens it by its path and
// asks it for its functions. Such a copy asks NVIDIA's driver for private tables that no other driver has, so it must
// not run. Before any constructor of its file runs, each of its public functions becomes a jump to this library's
// function of the same name (find_runtime.h: where they are). A copy that is not found gets an error that says why it
// cannot work, when it asks for those tables (driver/entry.cc).
//
// The loader tells debuggers about files that it has mapped and not started yet by calling an empty function (r_brk in
// <link.h>). This library replaces that function.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/sanitized.h"
#include "guest-allocator/runtime/find_runtime.h"

using namespace barcuda::runtime;

namespace {

// Our functions, by name, for the parameters and structures of each version: made by older_names.sh.
struct Ours {
    const char* name;  // null: the end
    void* of[3];       // of CUDA 13 and newer, 12, 11
};

}  // namespace

extern "C" [[gnu::visibility("hidden")]] const Ours barcuda_runtime_names[];
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start;  // the linker's: where this library begins

namespace {

// A runtime's version shows in what it still has.
int version_of(const std::vector<RuntimeFunction>& functions) {
    const auto has = [&](const char* name) {
        return std::ranges::find(functions, name, &RuntimeFunction::name) != functions.end();
    };
    if (has("cudaGetDeviceProperties_v2")) return 1;  // of that name in CUDA 12 alone
    if (has("cudaBindTexture")) return 2;             // gone since 12
    return 0;
}

// jmp *0(%rip), and where to.
struct [[gnu::packed]] Jump {
    std::uint8_t code[6] = {0xff, 0x25, 0, 0, 0, 0};
    const void* to;
};

// Code that may be written to for as long as this lives.
class WritableCode {
    static constexpr std::uintptr_t page = 4096;

  public:
    WritableCode(std::uintptr_t from, std::size_t bytes) {
        at_ = reinterpret_cast<void*>(from / page * page);
        bytes_ = from % page + bytes;
        open_ = bytes && mprotect(at_, bytes_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
    }
    ~WritableCode() {
        if (open_) mprotect(at_, bytes_, PROT_READ | PROT_EXEC);
    }
    WritableCode(const WritableCode&) = delete;
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

// Every runtime function of a file that is mapped `at` becomes a jump to this library's.
bool redirect(std::uintptr_t at, const ProgramFile& file, const std::vector<RuntimeFunction>& functions) {
    const int version = version_of(functions);
    for (const Elf64_Phdr& segment : file.segments()) {
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const WritableCode code(at + segment.p_vaddr, segment.p_memsz);
        if (!code) return false;
        const std::uintptr_t end = segment.p_vaddr + segment.p_memsz;
        for (const Ours* ours = barcuda_runtime_names; ours->name; ++ours) {
            const auto f = std::ranges::find(functions, ours->name, &RuntimeFunction::name);
            if (f == functions.end() || f->address < segment.p_vaddr || f->address >= end) continue;
            if (f->room >= sizeof(Jump)) jump(at + f->address, ours->of[version]);
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

void look_at(const link_map& object) {
    if (object.l_addr == reinterpret_cast<std::uintptr_t>(&__ehdr_start)) return;
    const char* const path = *object.l_name ? object.l_name : "/proc/self/exe";
    const ProgramFile file(path);
    const std::vector<RuntimeFunction> functions = find_runtime(file);
    if (!functions.empty() && !redirect(object.l_addr, file, functions))
        fprintf(stderr, "barcuda: the CUDA runtime inside %s cannot be replaced (%s): link it with -cudart=shared\n",
                path, strerror(errno));
}

// The loader's own list, as a debugger reads it. dl_iterate_phdr also looks for the files' thread-local variables, for
// which the loader has no places yet, and crashes at the 65th file that has any.
void loaded() {
    if (_r_debug.r_state != r_debug::RT_CONSISTENT) return;
    const int before = errno;
    const barcuda::heap::Inside inside;  // the loader's lock is held: malloc must not wait for a host
    std::vector<std::uintptr_t> mapped;
    for (const link_map* object = _r_debug.r_map; object; object = object->l_next) {
        mapped.push_back(object->l_addr);
        if (!std::ranges::count(known(), object->l_addr)) look_at(*object);
    }
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

// A program that opens this library while it runs (as libcuda.so.1) has started without it: its runtime is in use
// already. Unused under a sanitizer.
[[maybe_unused]] void watch() {
    if (_r_debug.r_state != r_debug::RT_ADD) return;
    const std::uintptr_t at = _r_debug.r_brk;
    const WritableCode code(at, is_empty(reinterpret_cast<const std::uint8_t*>(at)) ? sizeof(Jump) : 0);
    if (code) jump(at, reinterpret_cast<const void*>(loaded));
    else too_late = true;
}

// Under a debugger, which has replaced that function first, only the program itself is served: its constructors run
// after this library's.
[[gnu::constructor]] void begin() {
    if (too_late && _r_debug.r_map) look_at(*_r_debug.r_map);
}

}  // namespace

#if !BARCUDA_SANITIZED
// The loader resolves this while it relocates this library: by then every file that the program starts with is mapped,
// and no constructor has run. A constructor would be too late: libraries that come later in the order run theirs first.
extern "C" {
using Nothing = void();
static void nothing() {}
[[gnu::visibility("hidden")]] Nothing* barcuda_resolve() {
    watch();
    return nothing;
}
[[gnu::visibility("hidden"), gnu::ifunc("barcuda_resolve")]] void barcuda_resolved_early();
}
namespace {
[[gnu::used]] Nothing* const volatile needs_resolving = barcuda_resolved_early;
}
#endif
