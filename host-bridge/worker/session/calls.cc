// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/calls.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {
std::atomic<Calls*> serving{nullptr};  // a worker has one client
}

Calls::Calls(barcuda_calls* page, const Bell& bell) : page_(page), bell_(bell) {
    if (page) serving.store(this, std::memory_order_release);
}

void CUDA_CB Calls::run(void* function) { run_with_status(nullptr, CUDA_SUCCESS, function); }

void CUDA_CB Calls::run_with_status(CUstream, CUresult status, void* function) {
    if (Calls* calls = serving.load(std::memory_order_acquire))
        calls->ask(reinterpret_cast<std::uint64_t>(function), status);
}

void Calls::ask(std::uint64_t function, CUresult status) {
    using namespace std::chrono_literals;
    std::lock_guard one_at_a_time(mutex_);
    page_->function = function;
    page_->status = static_cast<std::int32_t>(status);
    publish(page_->asked, ++asked_);
    bell_.wake();
    // A guest that never answers blocks its own stream, and ends with its worker.
    for (unsigned turn = 0;; ++turn) {
        const std::uint32_t seen = turn < 4000 ? 0 : bell_.kicks();
        if (observe(page_->done) == asked_) return;
        if (turn < 2000) __builtin_ia32_pause();
        else if (turn < 4000) std::this_thread::sleep_for(20us);
        else bell_.sleep(seen, 100'000'000);  // the answer comes with a kick
    }
}

}  // namespace barcuda
