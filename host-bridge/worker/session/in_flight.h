// SPDX-License-Identifier: Apache-2.0
// in_flight.h: how many pieces of work the GPU has received and, as far as known, not finished. Work is counted by
// stream: a reached fence says that the earlier work of its stream is done, and a default stream's fence also says so
// for the streams for which it waits. The work of a math library belongs to the stream of its handle. Work without a
// known stream counts until the GPU is idle.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "host-bridge/between/driver.h"

namespace barcuda {

class InFlight {
  public:
    // The work of a stream; it outlives the stream, as the work does.
    struct Given {
        std::uint64_t given = 0, done = 0;
        std::uint64_t last = 0;           // number of the stream's last piece of work, counted over all streams
        CUcontext default_of = nullptr;   // a default stream: its context
        CUcontext blocking_in = nullptr;  // a stream for which this context's default stream waits
    };
    struct Mark {
        std::shared_ptr<Given> of;
        std::uint64_t given = 0, all = 0;
    };

    explicit InFlight(const Driver& driver) : driver_(driver) {}

    // Which streams wait for it is asked now, and never later: in a capture NVIDIA's driver takes the question for a
    // mistake of the program and ends the capture, and a capture may be the first work of a stream.
    void stream_made(CUstream stream) {
        blocking_.erase(stream);  // of one that went with its context
        unsigned flags = 0;
        CUcontext context = nullptr;
        if (driver_.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING) &&
            driver_.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS)
            blocking_[stream] = context;
    }
    void add(CUcontext context, CUstream stream) {
        Given& its = *of(context, stream);
        ++its.given;
        ++count_;
        its.last = ++all_;
    }
    void add() { ++count_; }  // in an unknown stream
    // Math libraries: set the stream of a handle's future work, and get it.
    void set_stream(const void* handle, CUstream stream) { handles_[handle] = stream; }
    CUstream stream_of(const void* handle) const {
        const auto its = handles_.find(handle);
        return its == handles_.end() ? nullptr : its->second;
    }
    void handle_gone(const void* handle) { handles_.erase(handle); }
    // A mark after all work of the stream so far.
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
    // NVIDIA's driver crashes when it is asked about a stream that has been destroyed. What a handle does from now on
    // counts as the default stream's.
    void stream_gone(CUstream stream) {
        streams_.erase(reinterpret_cast<std::uintptr_t>(stream));
        blocking_.erase(stream);
        std::erase_if(handles_, [stream](const auto& handle) { return handle.second == stream; });
    }
    void context_gone(CUcontext context) { streams_.erase(reinterpret_cast<std::uintptr_t>(context)); }
    // No mark is outstanding either.
    void all_done() {
        count_ = 0;
        ++times_idle_;
        for (auto& [place, its] : streams_) its->done = its->given;
    }
    // How often all work was done: what was given before the last time is done.
    std::uint64_t times_idle() const { return times_idle_; }

    std::uint64_t count() const { return count_; }

  private:
    void done(Given& its, std::uint64_t given) {
        if (given <= its.done) return;
        count_ -= given - its.done;
        its.done = given;
    }
    // A context's default streams count as one, under the context's name.
    const std::shared_ptr<Given>& of(CUcontext context, CUstream stream) {
        const auto handle = reinterpret_cast<std::uintptr_t>(stream);
        auto& its = streams_[handle > 2 ? handle : reinterpret_cast<std::uintptr_t>(context)];
        if (its) return its;
        its = std::make_shared<Given>();
        if (handle <= 2) its->default_of = context;
        else if (const auto known = blocking_.find(stream); known != blocking_.end()) its->blocking_in = known->second;
        return its;
    }

    const Driver& driver_;
    std::unordered_map<std::uintptr_t, std::shared_ptr<Given>> streams_;  // that had work
    std::unordered_map<CUstream, CUcontext> blocking_;                    // all that wait for a default one
    std::unordered_map<const void*, CUstream> handles_;                   // handles that have a stream of their own
    std::uint64_t count_ = 0, all_ = 0, times_idle_ = 0;
};

}  // namespace barcuda
