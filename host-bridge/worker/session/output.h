// SPDX-License-Identifier: Apache-2.0
// output.h: what the driver writes to the worker's standard output and standard error, both of which are pipes. Device printf goes
// to the output: a thread of the worker's takes it from there, whatever the driver is about, and keeps it until the client collects it;
// of what the client does not collect only so much is kept (Limit::printf_text), as CUDA keeps no more than its buffer holds. The error
// (its pipe is the bridge's: worker_process.cc), full (64 KiB), takes no more, since no thread may wait for that. The text of a failed assert of
// a kernel is for the client's standard error, where CUDA shows it: the client takes it when it learns of that error. All else is the
// host's business, and goes on to the log when the worker has nothing else to do. What is left when the worker ends, because its
// client is gone or because it was killed, the bridge puts into its log. (The guest's half:
// guest-allocator/driver/fence.cc.)
#pragma once
#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace barcuda {

class Allowance;

class Output {
  public:
    // From this process's standard output, which is `pipe` from now on: a thread begins to read it. Without this there is no text.
    void take_text_from(int pipe, Allowance& allowance);
    // Without this the standard error is nobody's but the process's own.
    void take_errors_from(int pipe, int log) { pipe_ = pipe, log_ = log; }

    void note(CUresult result) { assert_failed_ |= result == CUDA_ERROR_ASSERT; }
    // As many bytes as there are and have room.
    std::size_t printed(char* text, std::size_t room);
    std::size_t asserted(char* text, std::size_t room);
    // While the worker has nothing else to do.
    void pass_on();

  private:
    class Text;
    std::shared_ptr<Text> text_;  // of kernels; its thread has it too, and ends with the process
    int pipe_ = -1, log_ = -1;
    bool assert_failed_ = false;  // and the client has not taken the text
};

}  // namespace barcuda
