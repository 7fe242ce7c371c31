// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "host-bridge/log.h"
#include "host-bridge/worker/session.h"

namespace barcuda {

std::size_t Output::printed(char* text, std::size_t room) {
    std::fflush(stdout);
    const ssize_t n = pread(STDOUT_FILENO, text, room, taken_);
    if (n <= 0) return 0;
    taken_ += n;
    // What is taken needs no memory. The file keeps its length: a kernel may be printing meanwhile, behind its end.
    fallocate(STDOUT_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, taken_);
    return static_cast<std::size_t>(n);
}

std::size_t Output::asserted(char* text, std::size_t room) {
    const ssize_t n = assert_failed_ ? read(pipe_, text, room) : 0;
    if (n < static_cast<ssize_t>(room)) assert_failed_ = false;  // that was all
    return n > 0 ? static_cast<std::size_t>(n) : 0;
}

void Output::pass_on() {
    char text[4096];
    if (assert_failed_ || pipe_ < 0) return;
    for (ssize_t n; (n = read(pipe_, text, sizeof text)) > 0;)
        if (const auto plain = log::escaped({text, static_cast<std::size_t>(n)}, true);
            write(log_, plain.data(), plain.size()) < 0)
            return;
}

}  // namespace barcuda

namespace barcuda::ext {

CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    Output& output = session().output();
    *used = errors ? output.asserted(text, room) : output.printed(text, room);
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext
