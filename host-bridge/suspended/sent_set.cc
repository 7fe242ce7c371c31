// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/sent_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace barcuda {
namespace {

struct Coming {
    std::string name;
    SetPlace::Sink sink;
    Digest said, digest;  // of what has come, and of the file
    std::uint64_t bytes = 0;

    Failure take(std::span<const std::byte> piece) {
        digest.add(piece);
        bytes += piece.size();
        return sink(piece);
    }
};

// Frames that have come before the set, in a file beside it that only this process knows.
class Early {
  public:
    explicit Early(SetPlace& place) : place_(place) {}
    Failure add(std::uint32_t frame, std::span<const std::byte> piece) {
        constexpr std::size_t most_frames = 1 << 22;  // of 2 MiB
        if (frame >= most_frames || frame + 1 < frames_.size() || frame > frames_.size())
            return "the other side's early frames come in no order";
        if (!file_)
            if (Failure failure = place_.aside(file_, most_)) return "early frames: " + failure.text();
        if (frame == frames_.size()) frames_.push_back({end_, 0});
        frames_[frame].bytes += piece.size();
        if (frames_[frame].bytes > most_packed) return "an early frame of the other side is longer than frames are";
        if (end_ + piece.size() > most_)
            return fmt::format(
                "what comes before the pause has more than {} MiB, half of what was free at the destination: `barcuda "
                "move --stop-and-copy` sends nothing before it",
                most_ >> 20);
        digest_.add(piece);
        if (const int error = write_all(file_.fd(), piece, end_))
            return fmt::format("early frames: {}", strerror(error));
        end_ += piece.size();
        return {};
    }
    Failure end(const std::string& hash) const {
        return hash == digest_.text() ? Failure() : "early frames were damaged on their way";
    }
    Failure read(std::uint32_t frame, std::vector<std::byte>& bytes) const {
        if (frame >= frames_.size()) return "the other side names a frame that has not come";
        bytes.resize(frames_[frame].bytes);
        const int error = read_all(file_.fd(), bytes, frames_[frame].at);
        return error == 0 ? Failure() : fmt::format("early frames: {}", strerror(error));
    }

  private:
    struct Frame {
        std::uint64_t at, bytes;
    };
    SetPlace& place_;
    File file_;
    std::uint64_t most_ = 0;
    std::vector<Frame> frames_;
    std::uint64_t end_ = 0;
    Digest digest_;
};

}  // namespace

// Frames of zeros are not sent, and neither is what was sent before.
Failure SetSender::send_early(const std::function<Failure(FrameWriter&)>& fill) {
    std::map<std::size_t, std::string> hashes;  // of those to be sent
    std::size_t place = 0;                      // of the frame whose turn it is, and the table's behind them
    const auto sink = [&](std::span<const std::byte> packed) -> Failure {
        std::unique_lock lock(mutex_);
        const auto its = hashes.extract(place++);
        if (!its) return {};
        const std::uint32_t number = sent_early_++;
        // Of two equal frames that were on their way at once, both were sent.
        early_.emplace(its.mapped(), Frame{number, static_cast<std::uint32_t>(packed.size())});
        lock.unlock();
        early_digest_.add(packed);
        return to_.send(MoveWord::early, packed, number);
    };
    const auto has = [&](std::size_t frame, std::span<const std::byte> bytes) -> std::uint32_t {
        std::string hash = hash_(bytes);
        const std::lock_guard lock(mutex_);
        const auto its = early_.find(hash);
        if (its != early_.end()) return its->second.packed;
        hashes[frame] = std::move(hash);
        return 0;
    };
    const auto again = [&](std::size_t) -> Failure {
        ++place;
        return {};
    };
    FrameWriter frames(sink, {.has = has, .again = again});
    if (Failure failure = fill(frames)) return failure;
    if (Failure failure = frames.finish()) return failure;
    return to_.send(MoveWord::early_end, early_digest_.text());
}

FrameWriter::Known SetSender::known(const std::string& name) {
    if (early_.empty()) return {};
    const auto numbers = std::make_shared<std::map<std::size_t, std::uint32_t>>();  // of early frames, by the part's
    const std::lock_guard lock(mutex_);
    return {.has = [this, numbers](std::size_t frame, std::span<const std::byte> bytes) -> std::uint32_t {
                const std::string hash = hash_(bytes);
                const std::lock_guard alone(mutex_);
                const auto its = early_.find(hash);
                if (its == early_.end()) return 0;
                (*numbers)[frame] = its->second.number;
                return its->second.packed;
            },
            .again = [this, numbers, part = numbers_.at(name)](std::size_t frame) -> Failure {
                std::unique_lock alone(mutex_);
                const std::uint32_t which = numbers->extract(frame).mapped();
                alone.unlock();
                return to_.send(MoveWord::again, std::as_bytes(std::span(&which, 1)), part);
            }};
}

Failure SetSender::make(const std::string& name, Sink& sink) {
    std::unique_lock lock(mutex_);
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    numbers_[name] = number;
    lock.unlock();
    sink = [this, number](std::span<const std::byte> bytes) { return to_.send(MoveWord::bytes, bytes, number); };
    return to_.send(MoveWord::part, name, number);
}

Failure SetSender::finish(const std::string& name, std::uint64_t bytes, const Digest& digest) {
    std::unique_lock lock(mutex_);
    parts_.push_back({name, bytes, digest.text()});
    const std::uint32_t number = numbers_.at(name);
    lock.unlock();
    return to_.send(MoveWord::part_end, digest.text(), number);
}

Failure SetSender::commit(Description description) {
    description.parts = parts_;
    const std::string text = text_of(description);
    if (Description same; Failure failure = parse(text, same)) return failure;  // as its reader will
    may_be_there_ = true;
    if (Failure failure = to_.send(MoveWord::description, text)) return failure;
    return to_.expect(MoveWord::have);
}

Failure receive_set(Stream& from, SetPlace& to, Description& description) {
    std::map<std::uint32_t, Coming> coming;
    std::vector<Description::Part> parts;  // with the hashes of what has come
    Early early(to);
    std::string text;
    for (Stream::Message message;;) {
        if (Failure failure = from.receive(message)) return failure;
        const auto its = coming.find(message.part);
        const bool known = its != coming.end();
        if (message.word == MoveWord::part && !known) {
            Coming part{.name = message.text(), .sink = {}, .said = {}, .digest = {}};
            if (!is_part(part.name)) return fmt::format("'{}' is no part of a set", part.name.substr(0, 60));
            if (Failure failure = to.make(part.name, part.sink)) return failure;
            coming.emplace(message.part, std::move(part));
        } else if (message.word == MoveWord::early) {
            if (Failure failure = early.add(message.part, message.bytes)) return failure;
        } else if (message.word == MoveWord::early_end) {
            if (Failure failure = early.end(message.text())) return failure;
        } else if (message.word == MoveWord::bytes && known) {
            its->second.said.add(message.bytes);
            if (Failure failure = its->second.take(message.bytes)) return failure;
        } else if (std::uint32_t frame = 0;
                   message.word == MoveWord::again && known && message.bytes.size() == sizeof frame) {
            std::memcpy(&frame, message.bytes.data(), sizeof frame);
            std::vector<std::byte> bytes;
            if (Failure failure = early.read(frame, bytes)) return failure;
            if (Failure failure = its->second.take(bytes)) return failure;
        } else if (message.word == MoveWord::part_end && known) {
            Coming& part = its->second;
            const std::string said = part.said.text();
            if (message.text() != said)
                return fmt::format("{} was damaged on its way: its bytes do not fit its hash", part.name);
            if (Failure failure = to.finish(part.name, part.bytes, part.digest)) return failure;
            parts.push_back({part.name, part.bytes, said});
            coming.erase(its);
        } else if (message.word == MoveWord::description && message.part == 0) {
            text = message.text();
            break;
        } else {
            return "the other side's messages come in an order that has no meaning";
        }
    }
    if (!coming.empty()) return fmt::format("{} has no end", coming.begin()->second.name);
    if (Failure failure = parse(text, description)) return failure;
    const auto by_name = [](std::vector<Description::Part> all) {
        std::ranges::sort(all, {}, &Description::Part::name);
        return all;
    };
    if (by_name(parts) != by_name(description.parts)) return "what has come is not what the set consists of";
    return to.commit(description);
}

}  // namespace barcuda
