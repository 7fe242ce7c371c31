// SPDX-License-Identifier: Apache-2.0
// in_flight.h: how many pieces of work the GPU has been given and is not known to have done. They are counted by stream: a fence that
// is reached tells of the work of its own stream, and of no other. What names no stream (a math library's) counts until the GPU is
// seen idle.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace barcuda {

class InFlight {
  public:
    // What a stream was given up to some moment; outlives the stream, as its work does.
    struct Given {
        std::uint64_t given = 0, done = 0;
    };
    struct Mark {
        std::shared_ptr<Given> of;
        std::uint64_t given = 0;
    };

    void add(CUcontext context, CUstream stream) { ++of(context, stream)->given, ++count_; }
    void add() { ++count_; }  // for some stream
    // Behind all that the stream has been given.
    Mark mark(CUcontext context, CUstream stream) {
        const auto& its = of(context, stream);
        return {its, its->given};
    }
    void reached(const Mark& mark) {
        if (!mark.of || mark.given <= mark.of->done) return;
        count_ -= mark.given - mark.of->done;
        mark.of->done = mark.given;
    }
    void stream_gone(CUstream stream) { streams_.erase(reinterpret_cast<std::uintptr_t>(stream)); }
    void context_gone(CUcontext context) { streams_.erase(reinterpret_cast<std::uintptr_t>(context)); }
    // And nothing is marked any more.
    void all_done() {
        count_ = 0;
        for (auto& [place, its] : streams_) its->done = its->given;
    }

    std::uint64_t count() const { return count_; }

  private:
    // A context's default streams are one here, of the context's name.
    const std::shared_ptr<Given>& of(CUcontext context, CUstream stream) {
        const auto handle = reinterpret_cast<std::uintptr_t>(stream);
        auto& its = streams_[handle > 2 ? handle : reinterpret_cast<std::uintptr_t>(context)];
        if (!its) its = std::make_shared<Given>();
        return its;
    }

    std::unordered_map<std::uintptr_t, std::shared_ptr<Given>> streams_;
    std::uint64_t count_ = 0;
};

}  // namespace barcuda
