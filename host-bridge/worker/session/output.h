// SPDX-License-Identifier: Apache-2.0
// output.h: what the driver writes to the worker's standard output and standard error, which are both pipes. Device
// printf goes to the output: a thread of the worker reads it, whatever the driver does, and keeps it until the client
// collects it; the amount kept is limited (Limit::printf_text), as CUDA keeps no more than its buffer holds. The bridge
// owns the pipe of standard error (worker_process.cc). When that pipe is full (64 KiB), more text is dropped, because
// no thread may wait for it. The text of a kernel's failed assert is for the client's standard error, where CUDA shows
// it: the client collects it when it learns of that error. Everything else is for the host, and goes to the log when
// the worker is idle. When the worker ends, because its client ended or because it was killed, the bridge logs the
// rest. (The guest's half: guest-allocator/driver/fence.cc.)
#pragma once
#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

namespace barcuda {

class Allowance;

class Output {
  public:
    // Takes text from this process's standard output, which is `pipe` from now on: starts the thread that reads it.
    // Without this call there is no text.
    void take_text_from(int pipe, Allowance& allowance);
    // What the client has not collected yet. (The text of a failed assert comes with a fault, after which nothing
    // goes on.)
    struct State {
        std::string printed;
        bool operator==(const State&) const = default;
    };
    State state() const;
    // Behind take_text_from().
    void restore(const State& state);
    // Otherwise stderr stays the process's own.
    void take_errors_from(int pipe, int log) {
        pipe_ = pipe;
        log_ = log;
    }

    void note(CUresult result) { assert_failed_ |= result == CUDA_ERROR_ASSERT; }
    // Copies as many bytes as there are, up to `room`.
    std::size_t printed(char* text, std::size_t room);
    std::size_t asserted(char* text, std::size_t room);
    // Called while the worker is idle.
    void pass_on();

  private:
    class Text;
    std::shared_ptr<Text> text_;  // of kernels; shared with the thread, which ends with the process
    int pipe_ = -1, log_ = -1;
    bool assert_failed_ = false;  // and the client has not collected the text
};

}  // namespace barcuda
