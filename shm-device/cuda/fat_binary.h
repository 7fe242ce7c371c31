// SPDX-License-Identifier: Apache-2.0
// fat_binary.h: the form of what nvcc 11 to 13 packs code into. A container is a head and a body of entries, each with
// a head of its own: PTX or machine code, for one architecture. The guest leaves out what no device of its program can
// run (guest-allocator/driver/image.cc); the worker looks whether a kernel may print, and the software GPU takes its
// PTX (shm-device/cuda/fat_binary_reader.h). NVIDIA describes the wrapper alone, in <fatbinary_section.h>; the rest is
// as its tools write it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace barcuda::fatbin {

constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50;

struct Wrapper {  // what nvcc puts around a container: __fatBinC_Wrapper_t
    std::uint32_t magic, version;
    const void* container;
    const void* const* parts;  // of version 2, relocatable code: the containers that it was linked of, null at the end
};
static_assert(sizeof(Wrapper) == 24);

struct ContainerHead {
    std::uint32_t magic;
    std::uint16_t version, head_bytes;
    std::uint64_t body_bytes;
};
static_assert(sizeof(ContainerHead) == 16);

enum Kind : std::uint16_t { ptx = 1, elf = 2 };  // there are others: 8 is code for the linker
constexpr std::uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;

struct EntryHead {
    std::uint16_t kind, version;
    std::uint32_t head_bytes;
    std::uint64_t payload_bytes;  // padded to 8
    std::uint32_t packed_bytes;   // of them used, if compressed
    std::uint32_t options_at;
    std::uint16_t isa_minor, isa_major;
    std::uint32_t target;
    std::uint32_t name_at, name_bytes;
    std::uint64_t flags, reserved, plain_bytes;
    int architecture() const { return static_cast<int>(target & 0xffff); }  // 75 is sm_75
};
static_assert(sizeof(EntryHead) == 64);

// The entries of a container, one after another. No length is followed to outside of `container`, nor of what its head
// says.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> container) noexcept : broken_(open(container)) {}

    struct Entry {
        EntryHead head;
        std::span<const std::byte> all, payload;  // with its head, without
    };
    // False: there are no more, or the next is broken.
    bool next(Entry& entry) noexcept {
        if (rest_.size() < sizeof entry.head) return false;
        std::memcpy(&entry.head, rest_.data(), sizeof entry.head);
        const std::uint64_t head = entry.head.head_bytes, payload = entry.head.payload_bytes;
        if (head < sizeof entry.head || head > rest_.size()) return refuse("bad entry header length");
        if (payload > rest_.size() - head) return refuse("an entry reaches beyond the end");
        entry.all = rest_.first(head + payload);
        entry.payload = entry.all.subspan(head);
        rest_ = rest_.subspan(entry.all.size());
        return true;
    }

    const ContainerHead& head() const noexcept { return head_; }
    const char* broken() const noexcept { return broken_; }     // null: nothing is, so far
    std::size_t left() const noexcept { return rest_.size(); }  // of the body, behind the last entry that reads

  private:
    const char* open(std::span<const std::byte> container) noexcept {
        if (container.size() < sizeof head_) return "shorter than its header";
        std::memcpy(&head_, container.data(), sizeof head_);
        if (head_.magic != container_magic) return "wrong magic";
        if (head_.head_bytes < sizeof head_ || head_.head_bytes > container.size()) return "bad header length";
        const auto body = container.subspan(head_.head_bytes);
        if (head_.body_bytes > body.size()) return "cut short";
        rest_ = body.first(head_.body_bytes);
        return nullptr;
    }
    bool refuse(const char* why) noexcept {
        broken_ = why;
        return false;
    }

    ContainerHead head_{};
    std::span<const std::byte> rest_;
    const char* broken_;
};

}  // namespace barcuda::fatbin
