// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/moves.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>

#include "base/log.h"
#include "host-bridge/worker/memory/layer.h"
#include "host-bridge/worker/quota/granter.h"
#include "shm-device/queue/wait.h"

namespace barcuda {

Moves::Moves(const Driver& driver, Granter& granter, GpuWork& work, std::recursive_mutex& mutex,
             std::vector<Promise>& cards, PromisedPieces& promised, Allocations& all)
    : driver_(driver),
      granter_(granter),
      work_(work),
      mutex_(mutex),
      cards_(cards),
      promised_(promised),
      all_(all),
      copies_(driver),
      store_(all.blocks(), copies_),
      residence_(cards, *this) {
    store_.grow_by([this](std::uint64_t bytes) { return grow_store(bytes); });
    all_.blocks().before_end([this](std::uint64_t block) { forget(block); });
}

bool Moves::quiet() { return work_.quiet(); }
bool Moves::captures() { return work_.captures(); }

// ---- what is lacking

bool Moves::asks_for_more() {
    const PromisedPieces::Lack lack = promised_.lacks();
    return lack.bytes != 0 && residence_.asks_for_more(static_cast<std::size_t>(lack.device), lack.bytes);
}

void Moves::note_lack_of_the_driver(std::size_t card, std::uint64_t bytes) {
    // A driver takes whole pieces, and may lack more than one of them.
    if (card < cards_.size()) drivers_lack_ = {card, saturating_sum(bytes, Promise::unit), true};
}

Residence::Memory::Lack Moves::lacks() {
    if (promised_.lacks().bytes == 0) return drivers_lack_;
    return {static_cast<std::size_t>(promised_.lacks().device), promised_.lacks().bytes};
}

void Moves::forget_lack() {
    promised_.forget_lack();
    drivers_lack_ = {};
}

void Moves::look() {
    if (granter_.look()) return;
    for (Promise& card : cards_) card.end_sharing();
}

// ---- blocks

void Moves::put_out(std::size_t which, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t begun = Os::now();
    growing_ = 0;
    Promise& card = cards_[which];
    std::vector<std::pair<std::uint64_t, std::uint64_t>> by_size;
    each_block(which, [&](std::uint64_t address, const Block& block) { by_size.emplace_back(block.bytes, address); });
    std::ranges::sort(by_size, std::greater());
    std::vector<std::uint64_t> blocks;
    blocks.reserve(by_size.size());
    for (const auto& [size, address] : by_size) blocks.push_back(address);
    std::uint64_t moved = 0;
    const CUresult r = on(which, [&] { return store_.put_out(blocks, bytes, moved); });
    if (std::exchange(told_it_stays_, r != CUDA_SUCCESS) != (r != CUDA_SUCCESS) && r != CUDA_SUCCESS)
        log::warn("memory does not leave the GPU yet: {}", driver_.error_name(r));
    card.set_out(card.out() + moved);
    std::uint64_t fixed = 0;
    each_block(which, [&](std::uint64_t, const Block& block) {
        for (std::size_t i = 0; i < block.pieces.size(); ++i)
            if (!block.pieces[i].is_out && !all_.blocks().may_leave(block, i)) fixed += block.pieces[i].bytes;
    });
    card.set_fixed(fixed);
    card.note_out(moved, Os::now() - begun - growing_);  // room is prepared once: later moves do not wait for it
}

CUresult Moves::bring_back(std::size_t which) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t begun = Os::now();
    Promise& card = cards_[which];
    std::vector<std::uint64_t> blocks;
    each_block(which, [&](std::uint64_t address, const Block&) {
        if (store_.held(address) != 0) blocks.push_back(address);
    });
    const auto held = [&] {
        std::uint64_t sum = 0;
        for (const std::uint64_t block : blocks) sum += store_.held(block);
        return sum;
    };
    const std::uint64_t before = held();
    const CUresult r = on(which, [&] { return store_.bring_back(blocks); });
    const std::uint64_t left = held();
    card.set_out(left);
    card.note_back(before - left, Os::now() - begun);
    const bool waits = r == CUDA_ERROR_OUT_OF_MEMORY;
    if (!std::exchange(told_, waits) && waits)
        log::warn("{} MiB of memory do not come back to the GPU yet: {}", left >> 20, driver_.error_name(r));
    return r;
}

void Moves::forget(std::uint64_t block) {
    const std::uint64_t held = store_.held(block);
    if (held == 0) return;
    Promise& card = cards_[static_cast<std::size_t>(all_.blocks().at(block).device)];
    store_.forget(block);
    card.set_out(card.out() - held);
}

// ---- the store's room: files of the bridge, mapped and registered once

bool Moves::grow_store(std::uint64_t bytes) {
    const std::uint64_t begun = Os::now();
    const bool more = add_to_store(bytes);
    growing_ += Os::now() - begun;
    return more;
}

bool Moves::add_to_store(std::uint64_t bytes) {
    std::uint64_t number = 0, got = Store::next_part(bytes, store_.held() + store_.free());
    File file;
    const std::uint64_t asked = got;
    CUresult r = granter_.store_room(number, got, file);
    if (r != CUDA_SUCCESS && asked > most_of_a_piece) r = granter_.store_room(number, got = most_of_a_piece, file);
    if (r != CUDA_SUCCESS || !file || got == 0) return false;
    void* const at = mmap(nullptr, got, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    if (at == MAP_FAILED) {
        granter_.give_store_back(number);
        return false;
    }
    if (r = driver_.cuMemHostRegister_v2(at, got, CU_MEMHOSTREGISTER_PORTABLE); r != CUDA_SUCCESS)
        log::warn("room in the store is not registered, and will be slow: {}", driver_.error_name(r));
    store_.add_room(number, static_cast<std::byte*>(at), got);
    return true;
}

void Moves::shrink_store() {
    const std::lock_guard lock(mutex_);
    while (const auto part = store_.take_empty_room()) {
        driver_.cuMemHostUnregister(part->at);
        munmap(part->at, part->bytes);
        granter_.give_store_back(part->number);
    }
}

}  // namespace barcuda
