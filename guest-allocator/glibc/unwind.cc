// SPDX-License-Identifier: Apache-2.0
// unwind.cc: _dl_find_object, which glibc has since 2.35 (stubs.py). The unwinder that GCC 12 and newer link in only
// asks this function which object contains an instruction; the functions that older unwinders ask are in every glibc.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>

namespace {

struct Search {
    std::uintptr_t address;
    dl_find_object* found;
};

int look(dl_phdr_info* object, std::size_t, void* data) {
    const auto& search = *static_cast<Search*>(data);
    const ElfW(Phdr)* table = nullptr;
    std::uintptr_t begin = UINTPTR_MAX, end = 0;
    bool inside = false;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const auto& part = object->dlpi_phdr[i];
        const std::uintptr_t at = object->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_GNU_EH_FRAME) table = &part;
        if (part.p_type != PT_LOAD) continue;
        if (at < begin) begin = at;
        if (at + part.p_memsz > end) end = at + part.p_memsz;
        inside |= search.address - at < part.p_memsz;
    }
    if (!inside) return 0;
    if (!table) return -1;
    *search.found = {};
    search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
    search.found->dlfo_map_end = reinterpret_cast<void*>(end);
    search.found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + table->p_vaddr);
    return 1;
}

}  // namespace

// The link map, of which the unwinder wants nothing, stays empty.
extern "C" int _dl_find_object(void* address, dl_find_object* found) noexcept {
    Search search{reinterpret_cast<std::uintptr_t>(address), found};
    return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
