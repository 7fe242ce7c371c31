// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/supply.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/os/futex.h"
#include "host-bridge/worker/quota/granter.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// How long the clerk sleeps: if kicks arrive, a kick wakes it; otherwise it polls for requests.
constexpr std::uint64_t kicked_ns = 500'000'000, unkicked_ns = 50'000'000;
// How long the worker's thread may take to process a release before a request is refused: far longer than commands
// take, and short for a program that then gets ordinary memory.
constexpr auto grace = std::chrono::milliseconds(100);

}  // namespace

Supply::Supply(barcuda_supply& page, const Bell& bell, Granter& granter, Extents& extents, const State& state)
    : page_(page), bell_(bell), granter_(granter), extents_(extents), answered_(state.answered) {
    std::ranges::transform(state.prepared, prepared_.begin(), [&](const Run& run) {
        return Granted{run, extents.holds(run.offset, run.bytes)};
    });
}

Supply::Supply(barcuda_supply& page, const Bell& bell, Granter& granter, Extents& extents, const Preparation& prepared)
    : Supply(page, bell, granter, extents, of(prepared)) {}

Supply::State Supply::of(const Preparation& prepared) {
    State fresh;
    std::ranges::transform(prepared.extents, fresh.prepared.begin(), [](const auto& e) {
        return Run{e.offset, e.bytes};
    });
    return fresh;
}

Supply::~Supply() {
    clerk_ = {};
    adopt();  // also extents that will not be used: they are then unmapped with the rest
}

void Supply::begin() {
    if (clerk_.joinable()) return;
    clerk_ = std::jthread([this](const std::stop_token& stop) { attend(stop); });
}

void Supply::attend(const std::stop_token& stop) {
    void* const low = &page_.asked;
    auto& word = *static_cast<std::uint32_t*>(low);  // the low half, for the kernel
    const std::stop_callback wake(stop, [&] { futex_wake(word, Among::processes); });
    while (!stop.stop_requested()) {
        const auto seen = static_cast<std::uint32_t>(observe(page_.asked));
        if (!asked()) {
            futex_wait(word, seen, bell_.kicked() ? kicked_ns : unkicked_ns, Among::processes);
        } else if (!answer(false)) {
            const std::uint64_t request = observe(page_.asked);
            for (auto end = std::chrono::steady_clock::now() + grace;
                 asked() && observe(page_.asked) == request && std::chrono::steady_clock::now() < end;)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (asked()) answer(true);
        }
    }
}

CUresult Supply::find(std::uint64_t bytes, Granted& run) {
    const auto ready = std::ranges::find_if(prepared_, [&](const Granted& r) { return bytes && bytes <= r.bytes; });
    if (ready != prepared_.end()) run = std::exchange(*ready, {});
    else if (CUresult r = granter_.grant(bytes, run.offset, run.bytes); r != CUDA_SUCCESS) return r;
    if (const Failure failure = run.mapped ? Failure() : extents_.map_only(run.offset, run.bytes)) {
        log::error("{}", failure.text());
        granter_.release(run.offset, run.bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    granted_.push_back(run);
    new_.store(true, std::memory_order_release);
    return CUDA_SUCCESS;
}

bool Supply::answer(bool last) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t request = observe(page_.asked);
    if (request == answered_.load(std::memory_order_relaxed)) return true;  // the other thread was quicker
    Granted run;
    const CUresult r = find(observe(page_.bytes), run);
    if ((r == CUDA_ERROR_OUT_OF_MEMORY && !last) || r == CUDA_ERROR_NOT_READY) return false;
    page_.offset = run.offset;
    page_.granted = run.bytes;
    page_.error = static_cast<std::int32_t>(r);
    answered_.store(request, std::memory_order_relaxed);
    publish(page_.answered, request);  // WORD
    bell_.wake();
    return true;
}

Supply::State Supply::state() {
    clerk_ = {};
    adopt();
    const std::lock_guard lock(mutex_);
    State now{answered_.load(std::memory_order_relaxed), {}};
    std::ranges::copy(prepared_, now.prepared.begin());
    return now;
}

bool Supply::adopt() {
    if (!new_.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(mutex_);
    new_.store(false, std::memory_order_relaxed);
    for (const Granted& run : granted_)
        if (!run.mapped) extents_.add(run.offset, run.bytes);
    granted_.clear();
    return true;
}

}  // namespace barcuda
