// SPDX-License-Identifier: Apache-2.0
// The format: https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md
#include "host-bridge/suspended/frames.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/caught.h"
#include "base/os/thread.h"
#include "host-bridge/suspended/stored_frame.h"

namespace barcuda {
namespace {

constexpr std::uint32_t table_magic = 0x184D2A5E;  // of a frame that decompressors skip
constexpr std::uint32_t end_magic = 0x8F92EAB1;
// Faster than a disk, and most of what a higher level would save.
constexpr int level = 1;

// Of the table: its head, an entry for each frame (two words), and behind them the number of frames, a byte that says
// that entries have no checksums (frames have their own), and end_magic.
constexpr std::size_t footer_bytes = 9, entry_bytes = 8, head_bytes = 8;

struct FreeContext {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

template <class T> void append(std::vector<std::byte>& to, const T& value) {
    const auto* const at = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), at, at + sizeof value);
}

template <class T> T taken(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// ---- packing, by one thread
class Packer {
  public:
    static constexpr std::size_t room =
        std::max<std::size_t>(ZSTD_COMPRESSBOUND(frame_bytes), StoredFrame::length(frame_bytes));
    static_assert(room <= most_packed);

    Packer() {
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
    }
    // `to` has `room` bytes. 0: there is no memory.
    std::size_t pack(std::span<const std::byte> bytes, std::byte* to) {
        if (!context_) return 0;
        if (bytes.size() >= smallest_sampled && !shrinks(bytes)) return StoredFrame::write(bytes, to);
        const std::size_t n = ZSTD_compress2(context_.get(), to, room, bytes.data(), bytes.size());
        return ZSTD_isError(n) ? 0 : n;
    }

  private:
    // Some bytes of each part of a frame say what all would.
    static constexpr std::size_t smallest_sampled = 1 << 20, samples = 16, sample = 4 << 10;
    bool shrinks(std::span<const std::byte> bytes) {
        const std::size_t apart = bytes.size() / samples;
        for (std::size_t i = 0; i < samples; ++i)
            std::memcpy(sampled_.get() + i * sample, bytes.data() + i * apart, sample);
        constexpr std::size_t all = samples * sample;
        const std::size_t n =
            ZSTD_compress2(context_.get(), packed_.get(), ZSTD_COMPRESSBOUND(all), sampled_.get(), all);
        return ZSTD_isError(n) || n < all - all / 8;
    }

    const std::unique_ptr<ZSTD_CCtx, FreeContext> context_{ZSTD_createCCtx()};
    const std::unique_ptr<std::byte[]> sampled_{new std::byte[samples * sample]},
        packed_{new std::byte[ZSTD_COMPRESSBOUND(samples * sample)]};
};

Packer& packer() {
    thread_local Packer own;
    return own;
}

const std::vector<std::byte>& zero_frame() {
    static const std::vector<std::byte> frame = [] {
        std::vector<std::byte> bytes(Packer::room);
        bytes.resize(Packer().pack(std::vector<std::byte>(frame_bytes), bytes.data()));
        return bytes;
    }();
    return frame;
}

}  // namespace

// ---- writing

FrameTimes& FrameTimes::operator+=(const FrameTimes& other) {
    read += other.read;
    packed += other.packed;
    hashed += other.hashed;
    written += other.written;
    return *this;
}

// Counts the processor time that this thread spends on a stage while it lives.
struct FrameWriter::Timed {
    static std::uint64_t now() {
        timespec spent{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
        return static_cast<std::uint64_t>(spent.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(spent.tv_nsec);
    }
    Timed(FrameWriter& of, Stage stage) : count(of.nanoseconds_[stage]) {}
    ~Timed() { count += now() - begun; }
    Timed(const Timed&) = delete;
    std::atomic<std::uint64_t>& count;
    const std::uint64_t begun = now();
};

FrameTimes FrameWriter::times() const {
    const auto seconds = [this](Stage stage) { return static_cast<double>(nanoseconds_[stage]) / 1e9; };
    return {seconds(reading), seconds(packing), seconds(hashing), seconds(writing)};
}

FrameWriter::Buffer FrameWriter::Buffers::take(std::size_t bytes) {
    if (free.empty()) return Buffer(new std::byte[bytes]);
    Buffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
}

FrameWriter::FrameWriter(Sink sink, Known known, SinkAt at, std::shared_ptr<Crew> crew)
    : sink_(std::move(sink)),
      known_(std::move(known)),
      sink_at_(std::move(at)),
      crew_(crew ? std::move(crew) : std::make_shared<Crew>()),
      ready_(most_on_their_way()) {
    to_write_.reserve(most_on_their_way());
    inputs_.free.reserve(most_on_their_way() + 1);
    outputs_.free.reserve(most_on_their_way());
}

FrameWriter::FrameWriter(int file)
    : FrameWriter({}, {}, [file](std::uint64_t at, std::span<const std::byte> bytes) -> Failure {
          const int error = write_all(file, bytes, at);
          return error == 0 ? Failure() : Failure(strerror(error));
      }) {}

FrameWriter::~FrameWriter() {
    std::unique_lock lock(mutex_);
    if (!failure_) failure_ = "given up";
    changed_.wait(lock, [this] { return on_their_way_ == 0; });
}

void FrameWriter::fail(Failure failure) {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = std::move(failure);
}

Failure FrameWriter::add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (!begun_) {
            const std::lock_guard lock(mutex_);
            begun_ = inputs_.take(frame_bytes);
        }
        const auto n = std::min(bytes.size(), frame_bytes - begun_bytes_);
        std::memcpy(begun_.get() + begun_bytes_, bytes.data(), n);
        begun_bytes_ += n;
        bytes = bytes.subspan(n);
        if (begun_bytes_ < frame_bytes) break;
        if (Failure failure = pass_begun()) return failure;
    }
    return {};
}

Failure FrameWriter::pass_begun() {
    const std::size_t bytes = std::exchange(begun_bytes_, 0);
    if (bytes == 0) return {};
    // A function that can be copied needs a pointer that can.
    auto shared = std::make_shared<Buffer>(std::move(begun_));
    return add_frame(bytes, {.get = [shared, bytes](auto, std::span<const std::byte>& its) -> Failure {
                                 its = std::span(shared->get(), bytes);
                                 return {};
                             },
                             .release =
                                 [shared, this] {
                                     const std::lock_guard lock(mutex_);
                                     inputs_.free.push_back(std::move(*shared));
                                 }});
}

Failure FrameWriter::begin_frame(std::size_t bytes, std::size_t& number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failure_ || on_their_way_ < most_on_their_way(); });
    if (failure_) return failure_.text();
    number = frames_.size();
    frames_.push_back({0, static_cast<std::uint32_t>(bytes)});
    ++on_their_way_;
    bytes_ += bytes;
    return {};
}

Failure FrameWriter::add_frame(std::size_t bytes, const Source& source) {
    if (Failure failure = pass_begun()) return failure;
    std::size_t number = 0;
    if (Failure failure = begin_frame(bytes, number)) {
        if (source.release) source.release();
        return failure;
    }
    Failure failure = caught([&] {
        crew_->add([this, number, bytes, source] { work(number, bytes, source); });
        return Failure();
    });
    if (!failure) return {};
    if (source.release) source.release();
    fail(failure);
    settle({.number = number});
    return failure;
}

Failure FrameWriter::add_zeros(std::uint64_t bytes) {
    static constexpr std::byte zeros[4096] = {};
    while (bytes != 0 && (begun_bytes_ != 0 || bytes < frame_bytes)) {
        const auto n = std::min<std::uint64_t>({bytes, sizeof zeros, frame_bytes - begun_bytes_});
        if (Failure failure = add(std::span(zeros, n))) return failure;
        bytes -= n;
    }
    for (; bytes >= frame_bytes; bytes -= frame_bytes) {
        Packed packed{.kind = Packed::Kind::zeros, .bytes = zero_frame().size()};
        if (Failure failure = begin_frame(frame_bytes, packed.number)) return failure;
        settle(std::move(packed));
    }
    return bytes == 0 ? Failure() : add_zeros(bytes);
}

// ---- in any thread

void FrameWriter::work(std::size_t number, std::size_t bytes, const Source& source) {
    Packed packed{.number = number};
    if (Failure failure = caught([&] { return pack(number, bytes, source, packed); })) fail(std::move(failure));
    if (source.release)
        fail(caught([&] {
            source.release();
            return Failure();
        }));
    settle(std::move(packed));
}

Failure FrameWriter::pack(std::size_t number, std::size_t bytes, const Source& source, Packed& packed) {
    thread_local const Buffer room(new std::byte[frame_bytes]);
    std::span<const std::byte> its;
    Failure failure;
    {
        const std::lock_guard lock(mutex_);
        if (failure_) failure = "given up";  // and the first failure is told
        packed.buffer = outputs_.take(Packer::room);
    }
    if (!failure) {
        const Timed timed(*this, reading);
        failure = source.get(std::span(room.get(), bytes), its);
    }
    if (!failure && its.size() != bytes) failure = "a frame has another length than was said";
    if (!failure) {
        const Timed timed(*this, packing);
        if (bytes == frame_bytes && all_zeros(its)) {
            packed.kind = Packed::Kind::zeros;
            packed.bytes = zero_frame().size();
        } else if (const std::uint32_t there = known_.has ? known_.has(number, its) : 0; there != 0) {
            packed.kind = Packed::Kind::again;
            packed.bytes = there;
        } else {
            packed.bytes = packer().pack(its, packed.buffer.get());
            if (packed.bytes == 0) failure = "zstd does not compress it: there is no memory";
        }
    }
    return failure;
}

void FrameWriter::end(Packed& packed) {
    if (packed.buffer) outputs_.free.push_back(std::move(packed.buffer));
    --on_their_way_;
    changed_.notify_all();
}

// A frame is packed. This thread passes on those whose turn it is, and writes what no other one writes yet.
void FrameWriter::settle(Packed its) {
    std::unique_lock lock(mutex_);
    ready_[its.number % ready_.size()] = std::move(its);
    const auto unlocked = [&](Failure (FrameWriter::*does)(const Packed&), const Packed& packed) {
        if (failure_) return;
        lock.unlock();
        Failure failure = caught([&] { return (this->*does)(packed); });
        lock.lock();
        if (failure && !failure_) failure_ = std::move(failure);
    };
    for (;;) {
        if (std::optional<Packed>& turn = ready_[next_ % ready_.size()]; !passing_ && turn) {
            passing_ = true;
            Packed packed = std::move(*turn);
            turn.reset();
            packed.at = at_;
            unlocked(&FrameWriter::pass_on, packed);
            passing_ = false;
            ++next_;
            frames_[packed.number].packed = static_cast<std::uint32_t>(packed.bytes);
            at_ += packed.bytes;
            if (sink_at_ && !failure_) to_write_.push_back(std::move(packed));
            else end(packed);
        } else if (!to_write_.empty()) {
            Packed packed = std::move(to_write_.front());
            to_write_.erase(to_write_.begin());
            unlocked(&FrameWriter::write, packed);
            end(packed);
        } else {
            return;
        }
    }
}

namespace {
std::span<const std::byte> bytes_of(const auto& packed) {
    if (packed.buffer && packed.kind == std::decay_t<decltype(packed)>::Kind::bytes)
        return {packed.buffer.get(), packed.bytes};
    return zero_frame();
}
}  // namespace

Failure FrameWriter::pass_on(const Packed& packed) {
    if (packed.kind == Packed::Kind::again) return known_.again(packed.number);
    {
        const Timed timed(*this, hashing);
        digest_.add(bytes_of(packed));
    }
    if (sink_at_) return {};
    const Timed timed(*this, writing);
    return sink_(bytes_of(packed));
}

Failure FrameWriter::write(const Packed& packed) {
    const Timed timed(*this, writing);
    return sink_at_(packed.at, bytes_of(packed));
}

Failure FrameWriter::finish() {
    if (Failure failure = pass_begun()) return failure;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return on_their_way_ == 0; });
    if (failure_) return failure_.text();
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
    digest_.add(table);
    const std::uint64_t at = std::exchange(at_, at_ + table.size());
    return sink_at_ ? sink_at_(at, table) : sink_(table);
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
        if (frame.bytes == 0 || frame.bytes > frame_bytes || frame.packed > Packer::room) return damaged;
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

bool FrameReader::is_zeros(std::size_t number) const {
    const Frame& frame = frames_[number];
    const std::vector<std::byte>& zeros = zero_frame();
    if (frame.bytes != frame_bytes || frame.packed != zeros.size()) return false;
    std::vector<std::byte> packed(frame.packed);
    return read_all(file_, packed, frame.packed_at) == 0 && packed == zeros;
}

namespace {

// Of one thread: what it decompresses with, and where what it reads goes first.
struct Unpacker {
    const std::unique_ptr<ZSTD_DCtx, FreeContext> context{ZSTD_createDCtx()};
    const std::unique_ptr<std::byte[]> packed{new std::byte[Packer::room]};
};

}  // namespace

Failure FrameReader::read(std::size_t number, std::span<std::byte> into) const {
    thread_local const Unpacker own;
    const Frame& frame = frames_[number];
    if (frame.packed == StoredFrame::length(frame.bytes) && StoredFrame::read(file_, frame.packed_at, into)) return {};
    const std::span packed(own.packed.get(), frame.packed);
    if (const int e = read_all(file_, packed, frame.packed_at)) return strerror(e);
    if (frame.bytes == frame_bytes && std::ranges::equal(packed, zero_frame())) {
        std::ranges::fill(into, std::byte{});
        return {};
    }
    if (!own.context) return "there is no memory to decompress it";
    const std::size_t n =
        ZSTD_decompressDCtx(own.context.get(), into.data(), into.size(), packed.data(), packed.size());
    if (ZSTD_isError(n)) return fmt::format("frame {} is damaged: {}", number, ZSTD_getErrorName(n));
    return n == frame.bytes ? Failure() : Failure(fmt::format("frame {} has another length than its table", number));
}

Failure each_frame(const FrameReader& from, const std::function<Failure(std::span<const std::byte>)>& take) {
    struct Slot {
        std::vector<std::byte> bytes;
        Failure failure;
        bool full = false;
    };
    const std::size_t count = from.count(), threads = std::min(Crew::threads(), count);
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
            slot.failure = caught([&] {
                slot.bytes.resize(from.size(frame));
                return from.read(frame, slot.bytes);
            });
            lock.lock();
            slot.full = true;
            changed.notify_all();
        }
    };
    const os::SignalsBlocked blocked;
    std::vector<std::jthread> others;
    start_threads(threads, others, unpack);
    Failure failure = others.empty() && count != 0 ? "no thread can be started" : "";
    std::unique_lock lock(mutex);
    for (; taken < count && !failure; changed.notify_all()) {
        Slot& slot = slots[taken % slots.size()];
        changed.wait(lock, [&] { return slot.full; });
        lock.unlock();
        failure = slot.failure ? std::move(slot.failure) : caught([&] { return take(slot.bytes); });
        lock.lock();
        slot.full = false;
        ++taken;
    }
    over = true;
    lock.unlock();
    changed.notify_all();
    return failure;
}

}  // namespace barcuda
