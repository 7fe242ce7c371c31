// SPDX-License-Identifier: Apache-2.0
// streams.h: what a session asks about streams: whether one is in a capture, and whether its work is done. The worker
// waits for no stream (idle work is deferred.h's, waits are the guest's), so every question is one that is answered at
// once. In a capture even a question may be too much: the driver takes it as a mistake of the program's and spoils the
// capture. So as long as the client has never captured, streams are queried as they are; from then on each is asked for
// its capture first.
#pragma once
#include "host-bridge/between/driver.h"

namespace barcuda {

class Streams {
  public:
    explicit Streams(const Driver& driver) : driver_(driver) {
        // All of the client's threads are this one thread here: a capture of one must not forbid calls to the others.
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (driver_.cuThreadExchangeStreamCaptureMode) driver_.cuThreadExchangeStreamCaptureMode(&mode);
    }

    void capture_begun() { captures_ = true; }
    bool capturing(CUstream stream) const { return captures_ && asked(stream) == State::capturing; }
    // The graph of the capture that the stream is in; null: of none, or of one that has gone wrong.
    CUgraph captured_by(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        CUgraph graph = nullptr;
        if (!captures_ || !driver_.cuStreamGetCaptureInfo_v3) return nullptr;
        const CUresult r =
            driver_.cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
        return r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
    }
    // cuStreamQuery of it spoils nothing.
    bool askable(CUstream stream) const { return !captures_ || asked(stream) == State::free; }
    // No work of the stream is under way; in a capture too: the driver has its answer to that.
    bool done(CUstream stream) const {
        const State state = captures_ ? asked(stream) : State::free;
        return state == State::capturing || (state == State::free && finished(stream));
    }
    // No work of it is under way, as far as may be asked. An error is an end too: after it the driver waits for nothing.
    bool idle(CUstream stream) const { return askable(stream) && finished(stream); }

  private:
    enum class State { free, capturing, unknown };  // unknown: the default stream, while one that it waits for captures
    State asked(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return State::unknown;
        return status == CU_STREAM_CAPTURE_STATUS_NONE ? State::free : State::capturing;
    }
    bool finished(CUstream stream) const { return driver_.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }

    const Driver& driver_;
    bool captures_ = false;  // or did once
};

}  // namespace barcuda
