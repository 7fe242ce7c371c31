// SPDX-License-Identifier: Apache-2.0
// in_flight.h: how many pieces of work the GPU has been given and is not known to have done. Work is counted by stream:
// a fence that is reached tells of the work of its own stream, and a default stream's fence of the streams that this one
// waits for. The work of a math library belongs to the stream of its handle. Work for which no stream is known counts
// until the GPU is seen idle.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "host-bridge/between/driver.h"

namespace barcuda {

class InFlight {
  public:
    // What a stream was given; outlives the stream, as its work does.
    struct Given {
        std::uint64_t given = 0, done = 0;
        std::uint64_t last = 0;           // of all work that any stream was given, when this one got some last
        CUcontext default_of = nullptr;   // a default stream: its context
        CUcontext blocking_in = nullptr;  // a stream that the default one of this context waits for
    };
    struct Mark {
        std::shared_ptr<Given> of;
        std::uint64_t given = 0, all = 0;
    };

    explicit InFlight(const Driver& driver) : driver_(driver) {}

    void add(CUcontext context, CUstream stream) {
        Given& its = *of(context, stream);
        ++its.given, ++count_;
        its.last = ++all_;
    }
    void add() { ++count_; }  // for some stream
    // Math libraries: where a handle's work goes from now on, and where it goes.
    void set_stream(const void* handle, CUstream stream) { handles_[handle] = stream; }
    CUstream stream_of(const void* handle) const {
        const auto its = handles_.find(handle);
        return its == handles_.end() ? nullptr : its->second;
    }
    void handle_gone(const void* handle) { handles_.erase(handle); }
    // Behind all that the stream has been given.
    Mark mark(CUcontext context, CUstream stream) {
        const auto& its = of(context, stream);
        return {its, its->given, all_};
    }
    void reached(const Mark& mark) {
        if (!mark.of) return;
        done(*mark.of, mark.given);
        if (!mark.of->default_of || count_ == 0) return;
        for (const auto& [place, its] : streams_)
            if (its->blocking_in == mark.of->default_of && its->last <= mark.all) done(*its, its->given);
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
    void done(Given& its, std::uint64_t given) {
        if (given <= its.done) return;
        count_ -= given - its.done;
        its.done = given;
    }
    // A context's default streams are one here, of the context's name.
    const std::shared_ptr<Given>& of(CUcontext context, CUstream stream) {
        const auto handle = reinterpret_cast<std::uintptr_t>(stream);
        auto& its = streams_[handle > 2 ? handle : reinterpret_cast<std::uintptr_t>(context)];
        if (its) return its;
        its = std::make_shared<Given>();
        unsigned flags = 0;
        if (handle <= 2) its->default_of = context;
        else if (driver_.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING))
            driver_.cuStreamGetCtx(stream, &its->blocking_in);
        return its;
    }

    const Driver& driver_;
    std::unordered_map<std::uintptr_t, std::shared_ptr<Given>> streams_;
    std::unordered_map<const void*, CUstream> handles_;  // that have one of their own
    std::uint64_t count_ = 0, all_ = 0;
};

}  // namespace barcuda
