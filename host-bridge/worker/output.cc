// output.cc: what kernels print, and what a driver says of a failed assert, for the client to collect. (The guest's half:
// guest-allocator/driver/fence.cc.)
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "host-bridge/worker/session.h"

namespace barcuda::ext {

// Device printf goes to the worker's standard output, which is a file in memory (worker.cc), and the text of a failed
// assert to its standard error (errors.h): the client collects them here.
CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    if (errors) return *used = session().errors().take(text, room), CUDA_SUCCESS;
    std::fflush(stdout);
    const ssize_t n = pread(STDOUT_FILENO, text, room, session().output_taken());
    *used = n > 0 ? static_cast<std::uint64_t>(n) : 0;
    session().output_taken() += static_cast<off_t>(*used);
    // What is taken needs no memory. The file keeps its length: a kernel may be printing meanwhile, behind its end.
    if (n > 0) fallocate(STDOUT_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, session().output_taken());
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext
