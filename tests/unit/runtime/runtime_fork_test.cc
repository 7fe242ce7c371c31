// SPDX-License-Identifier: Apache-2.0
// The runtime in a process that is the fork of one that uses it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Natively, too, a child of a process that uses CUDA has no CUDA; it must be told so, and must not hang or crash.
TEST(RuntimeFork, HasNoDeviceInTheChild) {
    cudaFree(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        void* memory = nullptr;
        _exit(cudaMalloc(&memory, 16) == cudaErrorInitializationError ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

}  // namespace
