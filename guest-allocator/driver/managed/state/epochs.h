// SPDX-License-Identifier: Apache-2.0
// epochs.h: in which order streams' work and migrations come. Each migration to the device, and each function of the
// program's that a stream is given, begins an epoch. A stream knows the last epoch that its work is ordered after.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace barcuda::guest::managed {

// A stream by a number that is neither `no_memory` nor `slow_path` (gates.h). A context's default stream has its
// context's.
inline std::uint64_t key_of(CUstream real_stream, CUcontext context) noexcept {
    return real_stream ? reinterpret_cast<std::uint64_t>(real_stream) << 2 | 2
                       : reinterpret_cast<std::uint64_t>(context) << 2 | 3;
}

// A stream that has been given work which may touch managed memory.
struct ActiveStream {
    CUstream stream;  // CU_STREAM_LEGACY for a context's default stream
    CUcontext context;
    std::uint64_t epoch = 0;           // its later work is ordered after this epoch
    CUevent before_capture = nullptr;  // after the work that it was given before its last capture
};

// Work that no stream stands for: it is counted, and a count says how much of it has been waited for.
class Outstanding {
  public:
    void add() { ++given_; }
    std::uint64_t given() const { return given_; }
    bool any() const { return given_ != done_; }
    void done(std::uint64_t given) { done_ = std::max(done_, given); }  // all that was given when given() said so

  private:
    std::uint64_t given_ = 0, done_ = 0;
};

class Epochs {
  public:
    std::uint64_t now() const { return now_; }
    std::uint64_t begin() { return ++now_; }

    ActiveStream& use(CUstream real_stream, CUcontext context) {
        const CUstream spelled = real_stream ? real_stream : CU_STREAM_LEGACY;
        return streams_.try_emplace(key_of(real_stream, context), ActiveStream{spelled, context}).first->second;
    }
    ActiveStream* find(CUstream real_stream, CUcontext context) {
        const auto at = streams_.find(key_of(real_stream, context));
        return at == streams_.end() ? nullptr : &at->second;
    }
    void forget(CUstream real_stream, CUcontext context) { streams_.erase(key_of(real_stream, context)); }
    void forget(CUcontext context) {
        std::erase_if(streams_, [&](const auto& entry) { return entry.second.context == context; });
    }
    template <class Act> void each(Act act) {
        for (auto& [key, stream] : streams_) act(stream);
    }
    template <class Is> bool all(Is is) {
        return std::ranges::all_of(streams_, [&](auto& entry) { return is(entry.second); });
    }

    // Work whose stream is unknown, or that has outlived its stream; and the part of it that no event stands for
    // either.
    Outstanding unknown, unnamed;
    void add_unnamed() {
        unknown.add();
        unnamed.add();
    }

  private:
    std::uint64_t now_ = 0;
    std::unordered_map<std::uint64_t, ActiveStream> streams_;  // by key_of()
};

}  // namespace barcuda::guest::managed
