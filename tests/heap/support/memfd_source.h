// memfd_source.h: a source of extents without a host: a memfd mapped at the region's usual address, granted granule by
// granule. It checks what the heap does: an extent is released as it was granted, once; and it counts.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/heap/extents.h"

namespace barcuda::heap::test {

class MemfdSource final : public ExtentSource {
  public:
    // Null if the address is taken.
    static MemfdSource* open(std::size_t bytes, std::uintptr_t base = 0x200000000000) noexcept;
    void close() noexcept;

    Extent window() const noexcept override { return window_; }
    bool grant(std::size_t bytes, Extent& out) noexcept override;
    void release(Extent extent) noexcept override;
    bool forks_by_itself() const noexcept override { return false; }
    int file() const noexcept override { return fd_; }

    std::size_t granted() const noexcept { return granted_.load(); }  // bytes out now
    std::size_t most() const noexcept { return most_.load(); }

  private:
    static constexpr std::size_t most_granules = 8192;
    Extent window_;
    int fd_ = -1;
    std::atomic<std::size_t> granted_{0}, most_{0};
    std::uint16_t length_[most_granules] = {};  // on the first granule of an extent: its length
    bool used_[most_granules] = {};
};

}  // namespace barcuda::heap::test
