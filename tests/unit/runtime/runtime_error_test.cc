// SPDX-License-Identifier: Apache-2.0
// What a thread remembers of its errors, and what errors are called.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "guest-allocator/runtime/runtime.h"

namespace {

struct RuntimeError : testing::Test {
    void SetUp() override { barcuda::runtime::thread.error = cudaSuccess; }
    void TearDown() override { barcuda::runtime::thread.error = cudaSuccess; }
};

using RuntimeErrorText = RuntimeError;

TEST_F(RuntimeError, IsRememberedUntilItIsAskedFor) {
    EXPECT_EQ(cudaErrorInvalidValue, cudaMalloc(nullptr, 16));
    EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeError, SurvivesAPeek) {
    cudaMalloc(nullptr, 16);
    EXPECT_EQ(cudaErrorInvalidValue, cudaPeekAtLastError());
    EXPECT_EQ(cudaErrorInvalidValue, cudaPeekAtLastError());
    EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
}

TEST_F(RuntimeError, SurvivesALaterSuccess) {
    cudaMalloc(nullptr, 16);
    int version = 0;
    EXPECT_EQ(cudaSuccess, cudaRuntimeGetVersion(&version));
    EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
}

TEST_F(RuntimeError, IsTheLastOneOfSeveral) {
    cudaMalloc(nullptr, 16);
    cudaMemcpyToSymbol(nullptr, nullptr, 0, 0, cudaMemcpyDeviceToHost);
    EXPECT_EQ(cudaErrorInvalidMemcpyDirection, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeError, BelongsToItsThread) {
    cudaMalloc(nullptr, 16);
    std::thread([] { EXPECT_EQ(cudaSuccess, cudaGetLastError()); }).join();
    EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
}

TEST_F(RuntimeError, NotReadyIsAnAnswerAndIsNotRemembered) {
    EXPECT_EQ(cudaErrorNotReady, barcuda::runtime::record(CUDA_ERROR_NOT_READY));
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

// As on an H100: the next call that looks at the context says it again (tests/e2e/answers, fault_address/last_again).
TEST_F(RuntimeError, OfADeadContextIsAlsoForgottenOnceItWasAskedFor) {
    barcuda::runtime::record(CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cudaErrorIllegalAddress, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeErrorText, IsTheSameAsTheRealLibraryGives) {
    const char* home = std::getenv("CUDA_HOME");
    const auto path = std::filesystem::path(home ? home : "/usr/local/cuda") / "lib64/libcudart.so.13";
    void* real = dlopen(path.string().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!real) GTEST_SKIP() << dlerror();
    auto name = reinterpret_cast<const char* (*)(cudaError_t)>(dlsym(real, "cudaGetErrorName"));
    auto text = reinterpret_cast<const char* (*)(cudaError_t)>(dlsym(real, "cudaGetErrorString"));
    for (int code = -1; code <= 10001; code++) {
        auto error = static_cast<cudaError_t>(code);
        ASSERT_STREQ(name(error), cudaGetErrorName(error)) << code;
        ASSERT_STREQ(text(error), cudaGetErrorString(error)) << code;
    }
}

TEST_F(RuntimeErrorText, OfADriverResultWithoutARuntimeNameIsUnknown) {
    EXPECT_EQ(cudaErrorUnknown, barcuda::runtime::translate(CUDA_ERROR_CONTEXT_ALREADY_CURRENT));
    EXPECT_EQ(cudaErrorMemoryAllocation, barcuda::runtime::translate(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_EQ(cudaErrorInvalidResourceHandle, barcuda::runtime::translate(CUDA_ERROR_INVALID_HANDLE));
}

}  // namespace
