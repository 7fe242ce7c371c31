// SPDX-License-Identifier: Apache-2.0
// streams.h: what a session asks about streams: whether one is in a capture, and whether its work is done. The worker
// waits for no stream (deferred.h does work while the GPU is idle, and the guest waits), so every question has an
// immediate answer. In a capture even a question may do harm: the driver treats it as a mistake of the program and
// spoils the capture. So the worker queries streams directly while the client has never captured; from then on it first
// asks each stream for its capture.
#pragma once
#include "host-bridge/between/driver.h"

namespace barcuda {

class Streams {
  public:
    explicit Streams(const Driver& driver) : driver_(driver) {
        // All of the client's threads are this one thread: a capture of one must not forbid calls to the others.
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (driver_.cuThreadExchangeStreamCaptureMode) driver_.cuThreadExchangeStreamCaptureMode(&mode);
    }

    void capture_begun() { captures_ = true; }
    bool has_captured() const { return captures_; }
    bool capturing(CUstream stream) const { return captures_ && asked(stream) == State::capturing; }
    // The graph of the capture that the stream is in; null: no capture, or an invalidated one.
    CUgraph captured_by(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        CUgraph graph = nullptr;
        if (!captures_ || !driver_.cuStreamGetCaptureInfo_v3) return nullptr;
        const CUresult r =
            driver_.cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
        return r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
    }
    // The driver's number of the capture that the stream is in, valid or not; 0: none.
    std::uint64_t capture_of(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        cuuint64_t number = 0;
        if (!captures_ || !driver_.cuStreamGetCaptureInfo_v3) return 0;
        const CUresult r =
            driver_.cuStreamGetCaptureInfo_v3(stream, &status, &number, nullptr, nullptr, nullptr, nullptr);
        return r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE ? number : 0;
    }
    // cuStreamQuery of this stream spoils no capture.
    bool askable(CUstream stream) const { return !captures_ || asked(stream) == State::free; }
    // The stream has no unfinished work. Also valid in a capture, where the driver returns an error.
    bool done(CUstream stream) const {
        const State state = captures_ ? asked(stream) : State::free;
        return state == State::capturing || (state == State::free && finished(stream));
    }
    // The stream has no unfinished work, as far as the worker may ask. An error counts as done: after it the driver
    // waits for nothing.
    bool idle(CUstream stream) const { return askable(stream) && finished(stream); }

  private:
    // unknown: the default stream, while a stream for which it waits captures
    enum class State { free, capturing, unknown };
    State asked(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return State::unknown;
        return status == CU_STREAM_CAPTURE_STATUS_NONE ? State::free : State::capturing;
    }
    bool finished(CUstream stream) const { return driver_.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }

    const Driver& driver_;
    bool captures_ = false;  // or has captured before
};

}  // namespace barcuda
