// SPDX-License-Identifier: Apache-2.0
// packet.h: how values lie in a command. A packet is a run of values in parameter order, each at a multiple of 8 bytes;
// the layout follows from the types alone, whatever the compiler. Writer fills one, Reader takes it apart and refuses,
// for good, at the first value that is not wholly there: every truncated prefix of a packet is refused, and so are
// bytes left over.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace barcuda {

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

class Writer {
  public:
    explicit Writer(std::span<std::byte> to) : to_(to) {}

    template <class T> void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>, "only plain values cross the region");
        put_bytes(&value, sizeof value);
    }
    void put_bytes(const void* from, std::size_t n) {
        if (std::byte* at = skip(n); at && n) std::memcpy(at, from, n);
    }
    // Room for n bytes that the caller fills in place; null if there is none.
    std::byte* skip(std::size_t n) {
        if (!ok_ || n > to_.size() - used_ || padded(n) > to_.size() - used_) {
            ok_ = false;
            return nullptr;
        }
        std::byte* at = to_.data() + used_;
        if (padded(n) != n)
            std::memset(at + n, 0, padded(n) - n);  // no stale bytes of the region or the stack travel along
        used_ += padded(n);
        return at;
    }
    bool ok() const { return ok_; }
    std::size_t used() const { return used_; }

  private:
    std::span<std::byte> to_;
    std::size_t used_ = 0;
    bool ok_ = true;
};

class Reader {
  public:
    explicit Reader(std::span<const std::byte> from) : from_(from) {}

    template <class T> bool get(T& value) {
        static_assert(std::is_trivially_copyable_v<T>, "only plain values cross the region");
        const std::byte* at = skip(sizeof value);
        if (at) std::memcpy(&value, at, sizeof value);
        return at;
    }
    const std::byte* skip(std::size_t n) {
        if (!ok_ || n > left() || padded(n) > left()) {
            ok_ = false;
            return nullptr;
        }
        const std::byte* at = from_.data() + used_;
        used_ += padded(n);
        return at;
    }
    std::size_t left() const { return from_.size() - used_; }
    bool ok() const { return ok_; }
    bool done() const { return ok_ && left() == 0; }

  private:
    std::span<const std::byte> from_;
    std::size_t used_ = 0;
    bool ok_ = true;
};

// What stands before each request and each reply.
struct RequestHead {
    std::uint32_t op;       // the row, by its number at the bridge (identity.h), and maybe `correlated`
    std::uint32_t context;  // id of the CUcontext that is current in the calling thread; 0: none
};
// Behind such a head is a word with the number of the program's call that gives the command, for records of what the
// GPU does (rows/activity.h). Sent only to a bridge that has their rows.
inline constexpr std::uint32_t correlated = 0x80000000;
struct ReplyHead {
    std::int32_t result;  // CUresult
    std::uint32_t bytes;  // of the values that follow
};

}  // namespace barcuda
