// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/image.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <cstdint>

namespace barcuda::guest {
namespace {

constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50;
struct Wrapper {  // __fatBinC_Wrapper_t of <fatbinary_section.h>
    std::uint32_t magic, version;
    const void* container;
    const void* files;
};
struct Container {  // the head of a fat binary; entries follow
    std::uint32_t magic;
    std::uint16_t version, head_bytes;
    std::uint64_t entry_bytes;
};

std::size_t elf_bytes(const void* image) {
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    std::size_t end = std::max<std::size_t>(sizeof head, head.e_shoff + std::size_t{head.e_shnum} * head.e_shentsize);
    end = std::max(end, head.e_phoff + std::size_t{head.e_phnum} * head.e_phentsize);
    for (unsigned i = 0; i < head.e_shnum; ++i) {
        Elf64_Shdr section;
        memcpy(&section, static_cast<const char*>(image) + head.e_shoff + std::size_t{i} * head.e_shentsize,
               sizeof section);
        if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
    }
    return end;
}

}  // namespace

Image find_image(const void* image) noexcept {
    if (!image) return {};
    std::uint32_t magic = 0;
    memcpy(&magic, image, strnlen(static_cast<const char*>(image), 4));
    if (memcmp(image, ELFMAG, SELFMAG) == 0) return {image, elf_bytes(image)};
    if (magic == wrapper_magic) {
        Wrapper wrapper;
        memcpy(&wrapper, image, sizeof wrapper);
        return wrapper.container ? find_image(wrapper.container) : Image{};
    }
    if (magic == container_magic) {
        Container container;
        memcpy(&container, image, sizeof container);
        return {image, container.head_bytes + container.entry_bytes};
    }
    return {image, strlen(static_cast<const char*>(image)) + 1};
}

}  // namespace barcuda::guest
