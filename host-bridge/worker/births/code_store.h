// SPDX-License-Identifier: Apache-2.0
// code_store.h: images of code, each once, by their content. The libraries of a framework are a gigabyte, and programs
// load the same code more than once. A store is one file without a name (memfd), so the worker's own memory does not
// count it, and it has one descriptor however many kernels a program compiles.
//
// An image is found by a hash, and compared byte by byte: a hash that is made to match finds nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/message.h"
#include "host-bridge/worker/memory/holes.h"

namespace barcuda {

class CodeStore {
  public:
    // PyTorch 2 with all of its libraries has 1.6 GiB.
    static constexpr std::uint64_t most_bytes = std::uint64_t{2} << 30;

    explicit CodeStore(std::uint64_t most = most_bytes);
    CodeStore(const CodeStore&) = delete;

    struct Image {
        std::uint64_t hash = 0, bytes = 0;
        std::uint64_t offset = 0;  // in the file
        std::shared_ptr<const File> file;
        // Its bytes, as long as the result lives. Null: they cannot be mapped.
        std::shared_ptr<const std::byte> map() const;
    };
    // An image stays in the store while a Ref of it exists.
    using Ref = std::shared_ptr<const Image>;

    // Null: the store is full, or the host has no memory.
    Ref keep(std::span<const std::byte> image);
    std::size_t count() const { return images_.size(); }

  private:
    static constexpr std::uint64_t page = 4096;  // what can be mapped begins there

    Ref find(std::uint64_t hash, std::span<const std::byte> image) const;
    void make_room();
    void drop(const Image& image);
    static std::uint64_t pages(std::uint64_t bytes) { return (bytes + page - 1) / page * page; }

    std::shared_ptr<const File> file_;
    Holes holes_;
    std::multimap<std::uint64_t, Ref> images_;
};

}  // namespace barcuda
