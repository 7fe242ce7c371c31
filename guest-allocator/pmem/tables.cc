// SPDX-License-Identifier: Apache-2.0
// tables.cc: writes ext4's tables directly: mke2fs chooses the places of files, and leaves blocks free. A full group of
// blocks needs no bitmap of its own, so all groups share two bitmaps and one table of inodes. No tool makes that, but
// the kernel accepts it: with `noblock_validity` it does not compare a file's blocks with the tables', which are in
// group 0 as the files' are. Numbers and offsets are those of the kernel's Documentation/filesystems/ext4.
#include "guest-allocator/pmem/tables.h"

#include <fmt/format.h>

#include <cstring>

namespace barcuda::pmem {
namespace {

constexpr std::uint32_t block = 4096, group_blocks = 32768, inode_bytes = 256, root_inode = 2, first_inode = 11;
constexpr std::uint16_t directory_mode = 040700, file_mode = 0100600;

struct StoredFile {
    std::string name;
    std::uint32_t first, blocks;  // of the device
};

// Little-endian, as all of both is.
class DiskImage {
  public:
    explicit DiskImage(std::size_t blocks) : bytes_(blocks * block) {}
    template <class T> void put(std::size_t at, T value) { std::memcpy(bytes_.data() + at, &value, sizeof value); }
    void put32(std::size_t at, std::uint64_t value) { put(at, static_cast<std::uint32_t>(value)); }
    void put16(std::size_t at, std::uint64_t value) { put(at, static_cast<std::uint16_t>(value)); }
    void put(std::size_t at, const std::string& text) { std::memcpy(bytes_.data() + at, text.data(), text.size()); }
    void fill(std::size_t at, std::size_t n) { std::memset(bytes_.data() + at, 0xff, n); }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

std::vector<StoredFile> files_of(const barcuda_header& h) {
    const auto part = [](std::string name, std::uint64_t offset, std::uint64_t bytes) {
        return StoredFile{std::move(name), static_cast<std::uint32_t>((tables_room + offset) / block),
                          static_cast<std::uint32_t>(bytes / block)};
    };
    std::vector<StoredFile> files = {part(header_file, 0, BARCUDA_CHANNELS_OFFSET)};
    for (std::uint32_t i = 0; i < h.channel_count; ++i)
        files.push_back(
            part(channel_file(i), BARCUDA_CHANNELS_OFFSET + i * BARCUDA_CHANNEL_SIZE, BARCUDA_CHANNEL_SIZE));
    for (std::uint32_t i = 0; i < h.granule_count; ++i)
        files.push_back(part(granule_file(i), h.extents_offset + i * BARCUDA_GRANULE, BARCUDA_GRANULE));
    return files;
}

constexpr std::uint64_t up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step; }
std::size_t entry_bytes(const std::string& name) { return up(8 + name.size(), 4) * 4; }

// An inode whose bytes are one run of blocks.
void put_inode(DiskImage& image, std::size_t at, std::uint16_t mode, unsigned links, std::uint32_t first,
               std::uint32_t blocks) {
    constexpr std::uint32_t uses_extents = 0x80000;
    constexpr std::uint16_t extents_magic = 0xf30a;
    image.put16(at + 0x00, mode);
    image.put32(at + 0x04, std::uint64_t{blocks} * block);
    image.put16(at + 0x1a, links);
    image.put32(at + 0x1c, std::uint64_t{blocks} * (block / 512));
    image.put32(at + 0x20, uses_extents);
    image.put16(at + 0x28, extents_magic);
    image.put16(at + 0x2a, 1);  // of...
    image.put16(at + 0x2c, 4);  // ...extents that there is room for
    image.put16(at + 0x38, blocks);
    image.put32(at + 0x3c, first);
    image.put16(at + 0x80, 32);  // how much of the inode's second half is in use
}

}  // namespace

std::string channel_file(std::uint32_t index) { return fmt::format("c{}", index); }
std::string granule_file(std::uint32_t index) { return fmt::format("g{}", index); }

std::vector<std::byte> tables(const barcuda_header& h) {
    const std::vector<StoredFile> files = files_of(h);
    const std::uint64_t blocks = (tables_room + h.size) / block, groups = up(blocks, group_blocks);
    constexpr std::size_t group_bytes = 32;
    const std::uint64_t inodes = up(first_inode + files.size(), 16) * 16;
    std::size_t folder_blocks = 1, left = block - entry_bytes(".") - entry_bytes("..");
    for (const StoredFile& f : files) {
        if (entry_bytes(f.name) > left) {
            ++folder_blocks;
            left = block;
        }
        left -= entry_bytes(f.name);
    }
    // Which blocks have what.
    const std::uint64_t bitmap = 1 + up(groups * group_bytes, block), nodes = bitmap + 1,
                        folder = nodes + up(inodes * inode_bytes, block), end = folder + folder_blocks;
    DiskImage image(end);

    constexpr std::size_t super = 1024;
    image.put32(super + 0x00, groups * inodes);
    image.put32(super + 0x04, blocks);
    image.put32(super + 0x18, 2);  // blocks of 1 KiB << 2
    image.put32(super + 0x1c, 2);
    image.put32(super + 0x20, group_blocks);
    image.put32(super + 0x24, group_blocks);
    image.put32(super + 0x28, inodes);
    image.put16(super + 0x36, 0xffff);  // mounts without a check
    image.put16(super + 0x38, 0xef53);
    image.put16(super + 0x3a, 1);  // cleanly unmounted
    image.put16(super + 0x3c, 1);  // on errors: go on
    image.put32(super + 0x4c, 1);  // the revision that has the next ones
    image.put32(super + 0x54, first_inode);
    image.put16(super + 0x58, inode_bytes);
    image.put32(super + 0x5c, 0x200);               // compatible: two copies of this at most, and here none
    image.put32(super + 0x60, 0x2 | 0x40 | 0x200);  // incompatible: types in folders, extents, bitmaps anywhere
    image.put32(super + 0x64, 0x1 | 0x40);          // read-only compatible: few copies, large inodes
    image.put(super + 0x78, std::string("barcuda"));
    image.put16(super + 0x15c, 32);
    image.put16(super + 0x15e, 32);

    for (std::uint64_t g = 0; g < groups; ++g) {
        const std::size_t at = block + g * group_bytes;
        image.put32(at + 0x0, bitmap);
        image.put32(at + 0x4, bitmap);
        image.put32(at + 0x8, nodes);
    }
    image.fill(bitmap * block, block);  // of blocks and of inodes: none is free

    const auto inode_at = [&](std::uint64_t n) { return nodes * block + (n - 1) * inode_bytes; };
    put_inode(image, inode_at(root_inode), directory_mode, 2, static_cast<std::uint32_t>(folder),
              static_cast<std::uint32_t>(folder_blocks));
    std::size_t at = folder * block, before = at;
    const auto enter = [&](const std::string& name, std::uint64_t inode, std::uint8_t type) {
        const std::size_t bytes = entry_bytes(name), ends = up(at + 1, block) * block;
        if (at % block && at + bytes > ends) {  // the last entry of a block has what is left of it
            image.put16(before + 4, ends - before);
            at = ends;
        }
        image.put32(at, inode);
        image.put16(at + 4, bytes);
        image.put(at + 6, static_cast<std::uint8_t>(name.size()));
        image.put(at + 7, type);
        image.put(at + 8, name);
        before = at;
        at += bytes;
    };
    constexpr std::uint8_t is_file = 1, is_directory = 2;
    enter(".", root_inode, is_directory);
    enter("..", root_inode, is_directory);
    for (std::size_t i = 0; i < files.size(); ++i) {
        enter(files[i].name, first_inode + i, is_file);
        put_inode(image, inode_at(first_inode + i), file_mode, 1, files[i].first, files[i].blocks);
    }
    image.put16(before + 4, end * block - before);
    return image.take();
}

}  // namespace barcuda::pmem
