// SPDX-License-Identifier: Apache-2.0
// The format: https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md
#include "host-bridge/suspended/frames.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/os/thread.h"

namespace barcuda {
namespace {

constexpr std::uint32_t table_magic = 0x184D2A5E;  // of a frame that decompressors skip
constexpr std::uint32_t end_magic = 0x8F92EAB1;
constexpr std::size_t page = 4096;
// Faster than a disk, and most of what a higher level would save.
constexpr int level = 1;

// Of the table: its head, an entry for each frame (two words), and behind them the number of frames, a byte that says
// that entries have no checksums (frames have their own), and end_magic.
constexpr std::size_t footer_bytes = 9, entry_bytes = 8, head_bytes = 8;

struct FreeContext {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

std::vector<std::byte> compress(std::span<const std::byte> bytes) {
    const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
    std::vector<std::byte> packed(ZSTD_compressBound(bytes.size()));
    if (!context) return {};
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
    const std::size_t n = ZSTD_compress2(context.get(), packed.data(), packed.size(), bytes.data(), bytes.size());
    packed.resize(ZSTD_isError(n) ? 0 : n);
    return packed;
}

const std::vector<std::byte>& zero_frame() {
    static const std::vector<std::byte> frame = compress(std::vector<std::byte>(frame_bytes));
    return frame;
}

template <class T> void append(std::vector<std::byte>& to, const T& value) {
    const auto* const at = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), at, at + sizeof value);
}

template <class T> T taken(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

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

std::size_t frame_threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 16U); }

// Calls f(0) to f(count - 1), in that many threads. Returns the first failure.
template <class F> Failure in_threads(std::size_t count, std::size_t threads, const F& f) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    Failure first;
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            Failure failure = f(i);
            if (!failure) continue;
            const std::lock_guard lock(mutex);
            if (!first) first = std::move(failure);
            next = count;
        }
    };
    {
        const os::SignalsBlocked blocked;
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < std::min(count, threads); ++i) others.emplace_back(work);
        work();
    }
    return first;
}

}  // namespace

// ---- writing

FrameWriter::FrameWriter(Sink sink, Known known)
    : sink_(std::move(sink)), known_(std::move(known)), threads_(frame_threads()) {}

FrameWriter::FrameWriter(int file)
    : FrameWriter([file, at = std::uint64_t{0}](std::span<const std::byte> bytes) mutable -> Failure {
          const int error = write_all(file, bytes, at);
          at += bytes.size();
          return error == 0 ? Failure() : Failure(strerror(error));
      }) {}

Failure FrameWriter::add(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
        begun_.reserve(frame_bytes);
        const auto n = std::min(bytes.size(), frame_bytes - begun_.size());
        begun_.insert(begun_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
        bytes = bytes.subspan(n);
        if (begun_.size() < frame_bytes) break;
        full_.push_back(std::exchange(begun_, {}));
        if (full_.size() < threads_) continue;
        if (Failure failure = flush()) return failure;
    }
    return {};
}

Failure FrameWriter::add_zeros(std::uint64_t bytes) {
    static constexpr std::byte zeros[page] = {};
    while (bytes != 0 && (!begun_.empty() || bytes < frame_bytes)) {
        const auto n = std::min<std::uint64_t>({bytes, sizeof zeros, frame_bytes - begun_.size()});
        if (Failure failure = add(std::span(zeros, n))) return failure;
        bytes -= n;
    }
    if (bytes < frame_bytes) return {};
    if (Failure failure = flush()) return failure;
    for (; bytes >= frame_bytes; bytes -= frame_bytes, bytes_ += frame_bytes)
        if (Failure failure = write_frame(zero_frame(), frame_bytes)) return failure;
    return add_zeros(bytes);
}

Failure FrameWriter::flush() {
    std::vector<std::vector<std::byte>> packed(full_.size());
    std::vector<std::uint32_t> there(full_.size());
    const std::size_t first = frames_.size();
    Failure failure = in_threads(full_.size(), threads_, [&](std::size_t i) -> Failure {
        if (known_.has) there[i] = known_.has(first + i, full_[i]);
        if (there[i] != 0) return {};
        packed[i] = compress(full_[i]);
        return packed[i].empty() ? Failure("zstd does not compress it: there is no memory") : Failure();
    });
    for (std::size_t i = 0; i < full_.size() && !failure; ++i) {
        if (there[i] == 0) {
            failure = write_frame(packed[i], full_[i].size());
            continue;
        }
        frames_.push_back({there[i], static_cast<std::uint32_t>(full_[i].size())});
        written_ += there[i];
        failure = known_.again(first + i);
    }
    full_.clear();
    return failure;
}

Failure FrameWriter::write_frame(std::span<const std::byte> packed, std::size_t bytes) {
    frames_.push_back({static_cast<std::uint32_t>(packed.size()), static_cast<std::uint32_t>(bytes)});
    return write(packed);
}

Failure FrameWriter::write(std::span<const std::byte> packed) {
    digest_.add(packed);
    written_ += packed.size();
    return sink_(packed);
}

Failure FrameWriter::finish() {
    if (!begun_.empty()) full_.push_back(std::exchange(begun_, {}));
    if (Failure failure = flush()) return failure;
    std::vector<std::byte> table;
    append(table, table_magic);
    append(table, static_cast<std::uint32_t>(frames_.size() * entry_bytes + footer_bytes));
    for (const Frame& frame : frames_) {
        append(table, frame.packed);
        append(table, frame.bytes);
    }
    append(table, static_cast<std::uint32_t>(frames_.size()));
    append(table, std::uint8_t{0});
    append(table, end_magic);
    return write(table);
}

// ---- reading

Failure FrameReader::open(int file) {
    constexpr const char* damaged = "it is damaged, or was cut short: it does not end with a table of frames";
    const off_t all = lseek(file, 0, SEEK_END);
    if (all < 0) return strerror(errno);
    const auto length = static_cast<std::uint64_t>(all);
    std::byte footer[footer_bytes];
    if (length < head_bytes + footer_bytes) return damaged;
    if (const int e = read_all(file, footer, length - footer_bytes)) return strerror(e);
    const std::uint64_t count = taken<std::uint32_t>(footer), table = count * entry_bytes + footer_bytes;
    if (taken<std::uint32_t>(footer + 5) != end_magic || footer[4] != std::byte{} || length < table + head_bytes)
        return damaged;
    std::vector<std::byte> head(head_bytes + count * entry_bytes);
    if (const int e = read_all(file, head, length - table - head_bytes)) return strerror(e);
    if (taken<std::uint32_t>(head.data()) != table_magic || taken<std::uint32_t>(head.data() + 4) != table)
        return damaged;
    std::vector<Frame> frames;
    frames.reserve(count);
    std::uint64_t at = 0, packed_at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const entry = head.data() + head_bytes + i * entry_bytes;
        const Frame frame{at, packed_at, taken<std::uint32_t>(entry), taken<std::uint32_t>(entry + 4)};
        if (frame.bytes == 0 || frame.bytes > frame_bytes || frame.packed > ZSTD_compressBound(frame_bytes))
            return damaged;
        frames.push_back(frame);
        at += frame.bytes;
        packed_at += frame.packed;
    }
    if (packed_at != length - table - head_bytes) return damaged;
    file_ = file;
    frames_ = std::move(frames);
    bytes_ = at;
    return {};
}

Failure FrameReader::read(std::size_t number, std::span<std::byte> into) const {
    const Frame& frame = frames_[number];
    std::vector<std::byte> packed(frame.packed);
    if (const int e = read_all(file_, packed, frame.packed_at)) return strerror(e);
    if (frame.bytes == frame_bytes && std::ranges::equal(packed, zero_frame())) {
        std::ranges::fill(into, std::byte{});
        return {};
    }
    const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
    if (!context) return "there is no memory to decompress it";
    const std::size_t n = ZSTD_decompressDCtx(context.get(), into.data(), into.size(), packed.data(), packed.size());
    if (ZSTD_isError(n)) return fmt::format("frame {} is damaged: {}", number, ZSTD_getErrorName(n));
    return n == frame.bytes ? Failure() : Failure(fmt::format("frame {} has another length than its table", number));
}

Failure each_frame(const FrameReader& from, const std::function<Failure(std::span<const std::byte>)>& take) {
    struct Slot {
        std::vector<std::byte> bytes;
        Failure failure;
        bool full = false;
    };
    const std::size_t count = from.count(), threads = std::min(frame_threads(), count);
    std::vector<Slot> slots(2 * threads);
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t next = 0, taken = 0;
    bool over = false;
    const auto unpack = [&] {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return over || next == count || next < taken + slots.size(); });
            if (over || next == count) return;
            const std::size_t frame = next++;
            Slot& slot = slots[frame % slots.size()];
            lock.unlock();
            slot.bytes.resize(from.size(frame));
            slot.failure = from.read(frame, slot.bytes);
            lock.lock();
            slot.full = true;
            changed.notify_all();
        }
    };
    const os::SignalsBlocked blocked;
    std::vector<std::jthread> others;
    for (std::size_t i = 0; i < threads; ++i) others.emplace_back(unpack);
    Failure failure;
    std::unique_lock lock(mutex);
    for (; taken < count && !failure; changed.notify_all()) {
        Slot& slot = slots[taken % slots.size()];
        changed.wait(lock, [&] { return slot.full; });
        lock.unlock();
        failure = slot.failure ? std::move(slot.failure) : take(slot.bytes);
        lock.lock();
        slot.full = false;
        ++taken;
    }
    over = true;
    lock.unlock();
    changed.notify_all();
    return failure;
}

// ---- files with holes

Failure pack_file(int from, std::uint64_t size, FrameWriter& to) {
    std::vector<std::byte> buffer(frame_bytes);
    for (std::uint64_t at = 0; at < size;) {
        std::uint64_t data = 0;
        if (const int e = find_data(from, at, size, data)) return strerror(e);
        if (data < size) data = data / frame_bytes * frame_bytes;
        if (data > at) {
            if (Failure failure = to.add_zeros(data - at)) return failure;
            at = data;
            continue;
        }
        const auto piece = std::span(buffer).first(std::min<std::uint64_t>(frame_bytes, size - at));
        if (const int e = read_all(from, piece, at)) return strerror(e);
        if (Failure failure = all_zeros(piece) ? to.add_zeros(piece.size()) : to.add(piece)) return failure;
        at += piece.size();
    }
    return {};
}

Failure unpack_file(const FrameReader& from, int to) {
    return in_threads(from.count(), frame_threads(), [&](std::size_t i) -> Failure {
        std::vector<std::byte> bytes(from.size(i));
        if (Failure failure = from.read(i, bytes)) return failure;
        for (std::size_t at = 0; at < bytes.size();) {
            const auto kind = [&](std::size_t p) {
                return all_zeros(std::span(bytes).subspan(p, std::min(page, bytes.size() - p)));
            };
            const bool zeros = kind(at);
            std::size_t end = at;
            while (end < bytes.size() && kind(end) == zeros) end = std::min(end + page, bytes.size());
            const auto run = std::span(bytes).subspan(at, end - at);
            const std::uint64_t place = from.offset(i) + at;
            const bool hole = zeros && fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                 static_cast<off_t>(place), static_cast<off_t>(run.size())) == 0;
            if (const int e = hole ? 0 : write_all(to, run, place)) return strerror(e);
            at = end;
        }
        return {};
    });
}

}  // namespace barcuda
