// errors.h: what the driver writes to the worker's standard error, which is a pipe (bridge.cc): full (64 KiB), it takes
// no more, since nobody may wait for that. The text of a failed assert of a kernel is for the client's standard error,
// where CUDA shows it: the client takes it when it learns of that error. All else is the host's business, and goes on
// to the log when the worker has nothing else to do. What is left when the worker ends, because its client is gone or
// because it was killed, the bridge writes to its own standard error.
#pragma once
#include <cuda.h>
#include <unistd.h>

#include <cstddef>

namespace barcuda {

class Errors {
  public:
    Errors() = default;  // in a process whose standard error is nobody's but its own
    Errors(int pipe, int log) : pipe_(pipe), log_(log) {}

    void note(CUresult result) { assert_failed_ |= result == CUDA_ERROR_ASSERT; }
    std::size_t take(char* text, std::size_t room) {
        const ssize_t n = assert_failed_ ? read(pipe_, text, room) : 0;
        if (n < static_cast<ssize_t>(room)) assert_failed_ = false;  // that was all
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    void pass_on() {
        char text[4096];
        if (assert_failed_ || pipe_ < 0) return;
        for (ssize_t n; (n = read(pipe_, text, sizeof text)) > 0;)
            if (write(log_, text, static_cast<std::size_t>(n)) < 0) return;
    }

  private:
    int pipe_ = -1, log_ = -1;
    bool assert_failed_ = false;  // and the client has not taken the text
};

}  // namespace barcuda
