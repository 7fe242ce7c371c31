// SPDX-License-Identifier: Apache-2.0
// code.h: what a session keeps of the client's code while it is loaded and linked: an image that comes in parts,
// because it is large or the region had no room for it; the driver's compiler log of the last load, in case the client
// asks; and for each link its log and its finished image, which the driver keeps until the link is destroyed.
// (module.cc and link.cc load and link; print_search.h searches what is loaded. The guest's half:
// guest-allocator/driver/module.cc and link.cc.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/huge_pages.h"
#include "host-bridge/worker/session/compiler_log.h"

namespace barcuda {

class Code {
  public:
    // Adds the part at `place`. False: it is not the next one, or the image is too large.
    bool add_part(std::uint64_t place, const void* bytes, std::size_t size);
    // An image of that many bytes comes: makes room. False: it is too large. Throws std::bad_alloc.
    bool begin(std::uint64_t bytes);
    // What comes next of it. More than was said: all of it is dropped.
    void add_piece(const void* bytes, std::size_t size);
    // The image of `bytes` bytes; null: parts are missing.
    const void* parts(std::uint64_t bytes) const { return bytes && bytes == parts_.size() ? parts_.data() : nullptr; }
    // An image for the driver, which the guest cannot change while it is parsed: the parts themselves, or a copy of the
    // bytes in the region.
    LargeString take(const void* image, std::size_t bytes) {
        if (image == parts_.data()) {
            expected_ = 0;
            return std::exchange(parts_, {});
        }
        return {static_cast<const char*>(image), bytes};
    }
    void drop_parts() {
        expected_ = 0;
        LargeString().swap(parts_);  // an assignment would keep the memory
    }
    std::size_t held() const { return parts_.capacity(); }  // by parts
    bool has_parts() const { return !parts_.empty() || expected_ != 0; }

    void keep_log(std::unique_ptr<CompilerLog> log) { log_ = std::move(log); }  // of the last load
    const CompilerLog* log() const { return log_.get(); }

    struct Link {
        std::unique_ptr<CompilerLog> log;
        void* image = nullptr;  // owned by the driver
        std::size_t bytes = 0;
    };
    Link& link(CUlinkState state) { return links_[state]; }
    void link_gone(CUlinkState state) { links_.erase(state); }

  private:
    LargeString parts_;
    std::uint64_t expected_ = 0;  // bytes of the image that has begun
    std::unique_ptr<CompilerLog> log_;
    std::map<CUlinkState, Link> links_;
};

}  // namespace barcuda
