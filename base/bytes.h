// SPDX-License-Identifier: Apache-2.0
// bytes.h: all bytes of a file or a pipe, in however many pieces the kernel takes or gives them; and what bytes are.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace barcuda {

inline bool all_zeros(std::span<const std::byte> bytes) {
    return bytes.empty() ||
           (bytes[0] == std::byte{} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// `f(bytes, done)` reads or writes some. Returns 0 or an errno; `at_end`: what it is if there is nothing more.
template <class Byte, class F> int each_piece_of(std::span<Byte> bytes, int at_end, const F& f) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t n = f(bytes.subspan(done), done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : at_end;
        done += static_cast<std::size_t>(n);
    }
    return 0;
}

// From where the descriptor stands. Each returns 0 or an errno; ENODATA: there are fewer.
inline int write_all(int file, std::span<const std::byte> bytes) {
    return each_piece_of(bytes, EIO, [&](auto rest, std::size_t) { return write(file, rest.data(), rest.size()); });
}
inline int read_all(int file, std::span<std::byte> bytes) {
    return each_piece_of(bytes, ENODATA, [&](auto rest, std::size_t) { return read(file, rest.data(), rest.size()); });
}
// At that place of a file.
inline int write_all(int file, std::span<const std::byte> bytes, std::uint64_t at) {
    return each_piece_of(bytes, EIO, [&](auto rest, std::size_t done) {
        return pwrite(file, rest.data(), rest.size(), static_cast<off_t>(at + done));
    });
}
inline int read_all(int file, std::span<std::byte> bytes, std::uint64_t at) {
    return each_piece_of(bytes, ENODATA, [&](auto rest, std::size_t done) {
        return pread(file, rest.data(), rest.size(), static_cast<off_t>(at + done));
    });
}

// Text that another process may change meanwhile, and that may lack its zero.
template <std::size_t N> std::string copied(const char (&text)[N]) {
    char copy[N];
    std::memcpy(copy, text, N);
    return {copy, strnlen(copy, N)};
}

}  // namespace barcuda
