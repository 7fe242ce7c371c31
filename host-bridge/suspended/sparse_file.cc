// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/sparse_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "host-bridge/suspended/wide_file.h"

namespace barcuda {
namespace {

// The first byte at `at` or behind it that was written to; `size`: none was. Where the file knows no holes, all bytes
// were. Returns an errno.
int find_data(int file, std::uint64_t at, std::uint64_t size, std::uint64_t& found) {
    const off_t there = lseek(file, static_cast<off_t>(at), SEEK_DATA);
    found = there < 0 ? at : std::min(static_cast<std::uint64_t>(there), size);
    if (there >= 0 || errno == EINVAL) return 0;
    if (errno != ENXIO) return errno;
    found = size;
    return 0;
}

}  // namespace

Failure pack_file(int from, std::uint64_t size, FrameWriter& to, const std::function<Failure()>& goes_on) {
    for (std::uint64_t at = 0; at < size;) {
        if (goes_on)
            if (Failure failure = goes_on()) return failure;
        std::uint64_t data = 0;
        if (const int e = find_data(from, at, size, data)) return strerror(e);
        if (data < size) data = data / frame_bytes * frame_bytes;
        if (data > at) {
            if (Failure failure = to.add_zeros(data - at)) return failure;
            at = data;
            continue;
        }
        const auto bytes = std::min<std::uint64_t>(frame_bytes, size - at);
        const auto get = [from, at](std::span<std::byte> room, std::span<const std::byte>& its) -> Failure {
            its = room;
            const int e = read_all(from, room, at);
            return e == 0 ? Failure() : Failure(strerror(e));
        };
        if (Failure failure = to.add_frame(bytes, {.get = get})) return failure;
        at += bytes;
    }
    return {};
}

Failure unpack_file(const FrameReader& from, int to) {
    WideFile file(to);
    // Of a file that has no page yet, every hole is there.
    struct stat st {};
    const bool is_empty = fstat(to, &st) == 0 && st.st_blocks == 0;
    constexpr std::size_t page = 4096;
    return in_threads(from.count(), Crew::threads(), [&](std::size_t i) -> Failure {
        const auto make_hole = [&](std::uint64_t at, std::size_t bytes) {
            return is_empty || fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                                         static_cast<off_t>(bytes)) == 0;
        };
        if (from.is_zeros(i) && make_hole(from.offset(i), from.size(i))) return {};
        thread_local const std::unique_ptr<std::byte[]> room(new std::byte[frame_bytes]);
        const std::span<const std::byte> bytes(room.get(), from.size(i));
        if (Failure failure = from.read(i, std::span(room.get(), from.size(i)))) return failure;
        for (std::size_t at = 0; at < bytes.size();) {
            const auto kind = [&](std::size_t p) {
                return all_zeros(std::span(bytes).subspan(p, std::min(page, bytes.size() - p)));
            };
            const bool zeros = kind(at);
            std::size_t end = std::min(at + page, bytes.size());
            while (end < bytes.size() && kind(end) == zeros) end = std::min(end + page, bytes.size());
            const auto run = bytes.subspan(at, end - at);
            const std::uint64_t place = from.offset(i) + at;
            const bool hole = zeros && make_hole(place, run.size());
            if (const int e = hole ? 0 : file.write(place, run)) return strerror(e);
            at = end;
        }
        return {};
    });
}

}  // namespace barcuda
