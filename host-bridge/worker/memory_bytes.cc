// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory_bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace barcuda {
namespace {

// A piece of this size or more begins a frame: what lies in front of it may grow or end, and its frames stay the same.
constexpr std::size_t large = 64 << 10;
// Frames that are copied before the copies of those before them must be done. Not more than a quarter of all slots.
constexpr std::size_t most_in_a_batch = 8;

constexpr const char* gone = "its memory: the other side has gone";

Failure said(CUresult result, const char* what, std::uint64_t address) {
    if (result == CUDA_SUCCESS) return {};
    return fmt::format("the driver does not copy {} memory at {:#x} (error {})", what, address,
                       static_cast<int>(result));
}
Failure said(CUresult result) {
    if (result == CUDA_SUCCESS) return {};
    return fmt::format("the driver does not copy memory (error {})", static_cast<int>(result));
}

std::size_t frames_of_a_batch(const Conveyor& conveyor) {
    return std::clamp<std::size_t>(conveyor.slots() / 4, 1, most_in_a_batch);
}

bool begins_a_frame(std::size_t bytes, std::size_t used) {
    return used != 0 && (bytes >= large || used + bytes > Conveyor::slot_bytes);
}

}  // namespace

// ---- out

OutFrames::OutFrames(const Conveyor& to, CopyBatches copies)
    : to_(to), copies_(std::move(copies)), free_(to.slots(), true) {}

Failure OutFrames::place(std::size_t bytes, std::byte*& at) {
    if (begins_a_frame(bytes, used_))
        if (Failure failure = end_slot()) return failure;
    if (used_ == 0)
        if (Failure failure = begin_slot()) return failure;
    at = to_.slot(next_).data() + used_;
    used_ += bytes;
    bytes_ += bytes;
    return {};
}

bool OutFrames::has_room() {
    Conveyor::Word word;
    const std::size_t next = used_ == 0 ? next_ : (next_ + 1) % free_.size();
    while (!free_[next] && to_.has_word()) {
        ended_ = ended_ || !to_.hear(word) || word.slot >= free_.size() || word.bytes != 0;
        if (ended_) return false;
        free_[word.slot] = true;
    }
    return free_[next];
}

Failure OutFrames::begin_slot() {
    Conveyor::Word word;
    while (!free_[next_]) {
        // A slot that was not passed on never comes back.
        if (Failure failure = end_batch()) return failure;
        if (!to_.hear(word) || word.slot >= free_.size() || word.bytes != 0) return gone;
        free_[word.slot] = true;
    }
    free_[next_] = false;
    return {};
}

Failure OutFrames::end_slot() {
    batch_.push_back({static_cast<std::uint32_t>(next_), static_cast<std::uint32_t>(std::exchange(used_, 0))});
    next_ = (next_ + 1) % free_.size();
    return batch_.size() < frames_of_a_batch(to_) ? Failure() : end_batch();
}

Failure OutFrames::end_batch() {
    if (Failure failure = said(copies_.end_batch())) return failure;
    if (Failure failure = pass_on(before_)) return failure;
    before_ = std::exchange(batch_, {});
    return {};
}

Failure OutFrames::pass_on(std::vector<Conveyor::Word>& slots) {
    for (const Conveyor::Word& word : slots)
        if (!to_.say(word)) return gone;
    slots.clear();
    return {};
}

Failure OutFrames::finish() {
    if (used_ != 0)
        if (Failure failure = end_slot()) return failure;
    if (Failure failure = said(copies_.finish())) return failure;
    if (Failure failure = pass_on(before_)) return failure;
    if (Failure failure = pass_on(batch_)) return failure;
    return to_.say({}) ? Failure() : Failure(gone);
}

// ---- in

InFrames::InFrames(const Conveyor& from, CopyBatches copies)
    : from_(from), copies_(std::move(copies)), full_(from.slots()) {}

Failure InFrames::take(std::size_t bytes, const std::byte*& at) {
    if (begins_a_frame(bytes, used_))
        if (Failure failure = end_slot()) return failure;
    if (used_ == 0)
        if (Failure failure = begin_slot()) return failure;
    if (used_ + bytes > here_) return "its memory is not as long as it says";
    at = from_.slot(next_).data() + used_;
    used_ += bytes;
    bytes_ += bytes;
    return {};
}

Failure InFrames::begin_slot() {
    Conveyor::Word word;
    while (full_[next_] == 0) {
        if (Failure failure = end_batch()) return failure;  // the other side may wait for these slots
        if (ended_ || !from_.hear(word)) return "its memory ends too early";
        ended_ = word.slot == Conveyor::Word::end;
        if (!ended_ && word.slot < full_.size()) full_[word.slot] = word.bytes;
    }
    here_ = std::exchange(full_[next_], 0);
    return {};
}

Failure InFrames::end_slot() {
    if (used_ != here_) return "its memory is longer than it says";
    batch_.push_back(static_cast<std::uint32_t>(next_));
    used_ = here_ = 0;
    next_ = (next_ + 1) % full_.size();
    return batch_.size() < frames_of_a_batch(from_) ? Failure() : end_batch();
}

Failure InFrames::end_batch() {
    if (Failure failure = said(copies_.end_batch())) return failure;
    give_back(before_);
    before_ = std::exchange(batch_, {});
    return {};
}

// A side that has filled the last slot may have gone.
void InFrames::give_back(std::vector<std::uint32_t>& slots) {
    for (const std::uint32_t slot : slots) (void)from_.say({slot, 0});
    slots.clear();
}

Failure InFrames::finish() {
    if (used_ != 0)
        if (Failure failure = end_slot()) return failure;
    if (Failure failure = said(copies_.finish())) return failure;
    give_back(before_);
    give_back(batch_);
    Conveyor::Word word;
    if (!ended_ && !from_.hear(word)) return "its memory ends too early";
    return ended_ || word.slot == Conveyor::Word::end ? Failure() : Failure("there is more memory than the client has");
}

// ---- what goes

Failure each_piece(std::span<const Contents> memory, const std::function<Failure(std::uint64_t, std::size_t)>& f) {
    for (const Contents& its : memory)
        for (std::uint64_t done = 0; done < its.bytes;) {
            const std::uint64_t bytes = std::min<std::uint64_t>(Conveyor::slot_bytes, its.bytes - done);
            if (Failure failure = f(its.name + done, bytes)) return failure;
            done += bytes;
        }
    return {};
}

namespace {
constexpr std::size_t listed_at_once = Conveyor::slot_bytes / sizeof(Contents);
}

Failure save_list(std::span<const Contents> all, OutFrames& to) {
    std::byte* at = nullptr;
    const std::uint64_t count = all.size();
    if (Failure failure = to.place(sizeof count, at)) return failure;
    std::memcpy(at, &count, sizeof count);
    for (std::size_t done = 0; done < all.size();) {
        const auto some = std::as_bytes(all.subspan(done, std::min(listed_at_once, all.size() - done)));
        if (Failure failure = to.place(some.size(), at)) return failure;
        std::memcpy(at, some.data(), some.size());
        done += some.size() / sizeof(Contents);
    }
    return {};
}

Failure compare_list(std::span<const Contents> all, InFrames& from) {
    const std::byte* at = nullptr;
    std::uint64_t count = 0;
    if (Failure failure = from.take(sizeof count, at)) return failure;
    std::memcpy(&count, at, sizeof count);
    if (count != all.size()) return fmt::format("there are {} pieces of memory in place of {}", count, all.size());
    std::vector<Contents> its;
    for (std::size_t done = 0; done < all.size(); done += its.size()) {
        its.resize(std::min(listed_at_once, all.size() - done));
        if (Failure failure = from.take(its.size() * sizeof(Contents), at)) return failure;
        std::memcpy(its.data(), at, its.size() * sizeof(Contents));
        const auto [one, other] = std::ranges::mismatch(its, all.subspan(done));
        if (one != its.end())
            return fmt::format("there are {} bytes of memory at {:#x} in place of {} at {:#x}", one->bytes, one->name,
                               other->bytes, other->name);
    }
    return {};
}

Failure save_memory(std::span<const Contents> memory, Copies& copies, OutFrames& to) {
    return each_piece(memory, [&](std::uint64_t address, std::size_t bytes) -> Failure {
        std::byte* at = nullptr;
        if (Failure failure = to.place(bytes, at)) return failure;
        return said(copies.to_host(at, address, bytes), "from", address);
    });
}

Failure load_memory(std::span<const Contents> memory, Copies& copies, InFrames& from) {
    return each_piece(memory, [&](std::uint64_t address, std::size_t bytes) -> Failure {
        const std::byte* at = nullptr;
        if (Failure failure = from.take(bytes, at)) return failure;
        return said(copies.to_device(address, at, bytes), "to", address);
    });
}

}  // namespace barcuda
