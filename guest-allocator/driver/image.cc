// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/image.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <cstdint>

namespace barcuda::guest {
namespace {

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

enum class Fit { runs, never, unknown };
Fit fit(const fatbin::EntryHead& entry, std::span<const int> devices) {
    const int code = entry.architecture();
    // Machine code runs within its major version. Only the driver knows whether it runs on this minor version, and with
    // the features that it was built for.
    const auto same_major = [code](int device) { return device / 10 == code / 10; };
    // PTX is compiled for the same or a newer one.
    const auto not_older = [code](int device) { return device >= code; };
    switch (entry.kind) {
        case fatbin::elf: return std::ranges::any_of(devices, same_major) ? Fit::runs : Fit::never;
        case fatbin::ptx: return std::ranges::any_of(devices, not_older) ? Fit::runs : Fit::never;
        default: return Fit::unknown;
    }
}

}  // namespace

Image find_image(const void* image) noexcept {
    if (!image) return {};
    std::uint32_t magic = 0;
    memcpy(&magic, image, strnlen(static_cast<const char*>(image), 4));
    if (memcmp(image, ELFMAG, SELFMAG) == 0) return {image, elf_bytes(image)};
    if (magic == fatbin::wrapper_magic) {
        fatbin::Wrapper wrapper;
        memcpy(&wrapper, image, sizeof wrapper);
        return wrapper.container ? find_image(wrapper.container) : Image{};
    }
    if (magic == fatbin::container_magic) {
        fatbin::ContainerHead head;
        memcpy(&head, image, sizeof head);
        return {image, head.head_bytes + head.body_bytes};
    }
    return {image, strlen(static_cast<const char*>(image)) + 1};
}

bool is_text(const Image& image) noexcept {
    std::uint32_t magic = 0;
    if (!image.start || image.bytes < sizeof magic) return false;
    memcpy(&magic, image.start, sizeof magic);
    return memcmp(image.start, ELFMAG, SELFMAG) != 0 && magic != fatbin::container_magic;
}

Selection::Selection(Image image, std::span<const int> devices) noexcept {
    if (select(image, devices)) return;
    count_ = bytes_ = 0;
    add(image.start, image.bytes);
}

// False: send the whole image.
bool Selection::select(Image image, std::span<const int> devices) noexcept {
    const std::span bytes(static_cast<const std::byte*>(image.start), image.bytes);
    fatbin::Reader reader(bytes);
    head_ = reader.head();
    if (devices.empty() || reader.broken()) return false;
    add(&head_, sizeof head_);
    const auto more_head = bytes.first(head_.head_bytes).subspan(sizeof head_);
    add(more_head.data(), more_head.size());

    bool something_runs = false;
    std::uint64_t left_out = 0;
    for (fatbin::Reader::Entry entry; reader.next(entry);) {
        const Fit how = fit(entry.head, devices);
        something_runs |= how == Fit::runs;
        if (how == Fit::never && !last_place()) left_out += entry.all.size();
        else add(entry.all.data(), entry.all.size());
    }
    if (!something_runs || !left_out || reader.left()) return false;
    const auto behind = bytes.subspan(head_.head_bytes + head_.body_bytes);  // a file's NUL
    add(behind.data(), behind.size());
    head_.body_bytes -= left_out;
    return true;
}

void Selection::add(const void* start, std::size_t bytes) noexcept {
    bytes_ += bytes;
    const auto end = [](const Image& piece) { return static_cast<const std::byte*>(piece.start) + piece.bytes; };
    if (count_ && end(pieces_[count_ - 1]) == start) pieces_[count_ - 1].bytes += bytes;
    else if (bytes) pieces_[count_++] = {start, bytes};
}

}  // namespace barcuda::guest
