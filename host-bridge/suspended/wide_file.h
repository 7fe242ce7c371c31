// SPDX-License-Identifier: Apache-2.0
// wide_file.h: one file into which several threads write at once.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace barcuda {

// A file system of the host's memory lets one thread at a time write to a file, but several fill a mapping of it.
class WideFile {
  public:
    explicit WideFile(int file);  // which stays the caller's
    ~WideFile();
    WideFile(const WideFile&) = delete;
    // Returns 0 or an errno. A file that is mapped grows by what is written.
    int write(std::uint64_t at, std::span<const std::byte> bytes);

  private:
    // Of the addresses that are set aside, and of what a mapping is faster for.
    static constexpr std::uint64_t most = std::uint64_t{1} << 42;
    static constexpr std::size_t smallest = 64 << 10;
    bool fill(std::uint64_t at, std::span<const std::byte> bytes);

    const int file_;
    std::byte* map_ = nullptr;
    std::mutex grows_;
    std::atomic<std::uint64_t> size_{0};
};

}  // namespace barcuda
