// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/births/code_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "base/content_hash.h"

namespace barcuda {

CodeStore::CodeStore(std::uint64_t most)
    : file_(std::make_shared<File>(memfd_create("barcuda-code", MFD_CLOEXEC))), holes_(0, pages(most)) {}

std::shared_ptr<const std::byte> CodeStore::Image::map() const {
    void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->fd(), static_cast<off_t>(offset));
    if (at == MAP_FAILED) return {};
    return {static_cast<const std::byte*>(at),
            [all = bytes](const std::byte* p) { munmap(const_cast<std::byte*>(p), all); }};
}

CodeStore::Ref CodeStore::find(std::uint64_t hash, std::span<const std::byte> image) const {
    const auto [first, behind] = images_.equal_range(hash);
    for (auto its = first; its != behind; ++its) {
        if (its->second->bytes != image.size()) continue;
        const auto there = its->second->map();
        if (there && std::memcmp(there.get(), image.data(), image.size()) == 0) return its->second;
    }
    return {};
}

void CodeStore::drop(const Image& image) {
    fallocate(file_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(image.offset),
              static_cast<off_t>(pages(image.bytes)));
    holes_.give(image.offset, pages(image.bytes));
}

// Images that no client has any more.
void CodeStore::make_room() {
    std::erase_if(images_, [&](const auto& each) {
        if (each.second.use_count() != 1) return false;
        drop(*each.second);
        return true;
    });
}

CodeStore::Ref CodeStore::keep(std::span<const std::byte> image) {
    if (image.empty()) return {};
    const std::uint64_t hash = content_hash(image);
    if (Ref known = find(hash, image)) return known;
    make_room();
    const std::optional<std::uint64_t> offset = holes_.take(pages(image.size()));
    if (!offset) return {};
    Ref fresh = std::make_shared<Image>(Image{hash, image.size(), *offset, file_});
    for (std::size_t done = 0; done < image.size();) {
        const ssize_t n =
            pwrite(file_->fd(), image.data() + done, image.size() - done, static_cast<off_t>(*offset + done));
        if (n <= 0) {
            drop(*fresh);
            return {};
        }
        done += static_cast<std::size_t>(n);
    }
    images_.emplace(hash, fresh);
    return fresh;
}

}  // namespace barcuda
