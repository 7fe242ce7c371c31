// SPDX-License-Identifier: Apache-2.0
// library_test: what the rows of the math libraries (shm-device/rows/cublas.h) let through: statuses come back as
// they were, scalars and results go where the pointer mode says, and a library never gets an address that is not the
// client's.
#include <limits>

#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

template <class S> void expect_all_come_back(std::initializer_list<S> all) {
    for (S status : all) EXPECT_EQ(Status<S>::of(Status<S>::code(status)), status);
}
TEST(LibraryStatus, OfCuBlasComesBackAsItself) {
    expect_all_come_back({CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED,
                          CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_MAPPING_ERROR,
                          CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_NOT_SUPPORTED,
                          CUBLAS_STATUS_LICENSE_ERROR});
}
TEST(LibraryStatus, OfCuRandComesBackAsItself) {
    expect_all_come_back({CURAND_STATUS_SUCCESS, CURAND_STATUS_VERSION_MISMATCH, CURAND_STATUS_NOT_INITIALIZED,
                          CURAND_STATUS_ALLOCATION_FAILED, CURAND_STATUS_TYPE_ERROR, CURAND_STATUS_OUT_OF_RANGE,
                          CURAND_STATUS_LENGTH_NOT_MULTIPLE, CURAND_STATUS_DOUBLE_PRECISION_REQUIRED,
                          CURAND_STATUS_LAUNCH_FAILURE, CURAND_STATUS_PREEXISTING_FAILURE,
                          CURAND_STATUS_INITIALIZATION_FAILED, CURAND_STATUS_ARCH_MISMATCH,
                          CURAND_STATUS_INTERNAL_ERROR});
}
TEST(LibraryStatus, OfAHostWithoutTheLibraryIsThatItCannotBeInitialized) {
    EXPECT_EQ(Status<cublasStatus_t>::of(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED), CUBLAS_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(Status<curandStatus_t>::of(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED), CURAND_STATUS_INITIALIZATION_FAILED);
}

struct Seen {  // by the library
    cublasPointerMode_t mode;
    float scalar;
    const void* scalar_at;
} seen;

struct Blas : Loopback {
    cublasHandle_t handle = nullptr;
    const CUdeviceptr memory = world.memory;
    static constexpr std::int64_t floats = fake::World::memory_bytes / 4;
    float one = 1.5f;

    Blas() {
        EXPECT_TRUE((call<Op::cublasCreate_v2>(&handle).ok()));
        ground.session.libraries().functions().cublasSetPointerMode_v2 = [](cublasHandle_t, cublasPointerMode_t mode) {
            seen.mode = mode;
            return CUBLAS_STATUS_SUCCESS;
        };
        ground.session.libraries().functions().cublasSscal_v2 = [](cublasHandle_t, std::int64_t, const float* by,
                                                                   float*, std::int64_t) {
            seen.scalar_at = by;
            if (seen.mode == CUBLAS_POINTER_MODE_HOST) seen.scalar = *by;
            return CUBLAS_STATUS_SUCCESS;
        };
    }
    cublasHandle_t on_device() const { return reinterpret_cast<cublasHandle_t>(id(handle) | kind::blas::device_bit); }
    template <class T = float> static T* at(CUdeviceptr address) { return reinterpret_cast<T*>(address); }
    Verdict scale(cublasHandle_t h, std::int64_t n, const float* by, CUdeviceptr x, std::int64_t inc) {
        return call<Op::cublasSscal_v2>(h, n, by, at(x), inc);
    }
    Verdict product(int m, int n, int k, CUdeviceptr a, std::int64_t lda, cublasOperation_t op = CUBLAS_OP_N) {
        return call<Op::cublasSgemm_v2>(handle, op, CUBLAS_OP_N, m, n, k, &one, at<const float>(a), lda,
                                        at<const float>(memory), k, &one, at(memory), m);
    }
    // What the guest says before anything crosses.
    template <Op op, class... Given> CUresult judged(Given... given) {
        typename RowOf<op>::Arguments arguments{given...};
        typename RowOf<op>::Parameters parameters{};
        CUresult r = CUDA_SUCCESS;
        std::apply([&](auto&... p) { (void)(((r = p.valid(arguments, guest)) == CUDA_SUCCESS) && ...); }, parameters);
        return r;
    }
};

TEST_F(Blas, AScalarOfTheHostCrossesByValue) {
    EXPECT_TRUE(scale(handle, 4, &one, memory, 1).ok());
    EXPECT_EQ(seen.mode, CUBLAS_POINTER_MODE_HOST);
    EXPECT_EQ(seen.scalar, 1.5f);
    EXPECT_NE(seen.scalar_at, &one);
}
TEST_F(Blas, AScalarOfTheDeviceIsAnAddressOfTheClients) {
    EXPECT_TRUE(scale(on_device(), 4, at(memory + 64), memory, 1).ok());
    EXPECT_EQ(seen.mode, CUBLAS_POINTER_MODE_DEVICE);
    EXPECT_EQ(seen.scalar_at, at(memory + 64));
    EXPECT_EQ(scale(on_device(), 4, &one, memory, 1).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Blas, AVectorEndsWhereTheClientsMemoryDoes) {
    EXPECT_TRUE(scale(handle, floats, &one, memory, 1).ok());
    EXPECT_EQ(scale(handle, floats + 1, &one, memory, 1).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(scale(handle, 3, &one, memory + 4, (floats - 2) / 2).ok());
    EXPECT_EQ(scale(handle, 3, &one, memory + 4, floats / 2).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(scale(handle, 3, &one, memory + 4, -floats / 2).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Blas, SizesWhoseProductOverflowsAreRefused) {
    EXPECT_EQ(scale(handle, std::int64_t{1} << 62, &one, memory, std::int64_t{1} << 62).result,
              CUDA_ERROR_INVALID_VALUE);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(scale(handle, most, &one, memory, most).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(scale(handle, most, &one, memory, -most - 1).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(product(2, 2, 1 << 30, memory, std::int64_t{1} << 62).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Blas, AMatrixEndsWithItsLastColumn) {
    const std::int64_t ld = floats / 4;
    EXPECT_TRUE(product(8, 2, 4, memory, ld).ok());
    EXPECT_TRUE(product(8, 2, 4, memory + (ld - 8) * 4, ld).ok());
    EXPECT_EQ(product(8, 2, 4, memory + (ld - 7) * 4, ld).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(product(4, 2, 8, memory, ld, CUBLAS_OP_T).ok());  // stored as 8 by 4
    EXPECT_EQ(product(8, 2, 4, memory, ld, CUBLAS_OP_T).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Blas, MatricesMayLieOneBeforeTheOther) {
    const auto many = [&](CUdeviceptr a, long long apart) {
        return call<Op::cublasSgemmStridedBatched>(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, at<const float>(a),
                                                   2, apart, at<const float>(memory), 2, 4ll, &one, at(memory), 2, 4ll,
                                                   3);
    };
    EXPECT_TRUE(many(memory, 100).ok());
    EXPECT_TRUE(many(memory + 800, -100).ok());
    EXPECT_EQ(many(memory + 796, -100).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Blas, MemoryOfTheWorkerIsRefused) {
    float mine[16] = {};
    const auto before = world.calls;
    EXPECT_EQ(scale(handle, 4, &one, reinterpret_cast<CUdeviceptr>(mine), 1).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ((call<Op::cublasSasum_v2>(on_device(), 4, at<const float>(memory), 1, static_cast<float*>(mine)).result),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(world.calls, before);
}
TEST_F(Blas, AResultThatTheGpuWouldNotWriteIsALie) {
    EXPECT_TRUE((call<Op::cublasSasum_v2>(handle, 4, at<const float>(memory), 1, at(memory)).lie));
    EXPECT_TRUE((call<Op::cublasSasum_v2>(on_device(), 4, at<const float>(memory), 1, at(region(0))).ok()));
}
TEST_F(Blas, AHandleOfAnotherTypeIsTheProgramsMistake) {
    const auto s = reinterpret_cast<cublasHandle_t>(stream());
    EXPECT_EQ(scale(s, 4, &one, memory, 1).result, CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Blas, ADestroyedHandleIsUnknown) {
    EXPECT_TRUE((call<Op::cublasDestroy_v2>(handle).ok()));
    EXPECT_EQ(scale(handle, 4, &one, memory, 1).result, CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Blas, WhatTheLibraryRefusesAtTheCallTheGuestRefusesThere) {
    const float* f = &one;
    const auto gemm = [&](cublasOperation_t op, int m, int lda, const float* alpha) {
        return judged<Op::cublasSgemm_v2>(handle, op, CUBLAS_OP_N, m, 4, 4, alpha, f, lda, f, 4, f, &one, 4);
    };
    EXPECT_EQ(gemm(CUBLAS_OP_N, 4, 4, f), CUDA_SUCCESS);
    EXPECT_EQ(gemm(CUBLAS_OP_N, -1, 4, f), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(gemm(CUBLAS_OP_N, 4, 3, f), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(gemm(CUBLAS_OP_N, 4, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(gemm(static_cast<cublasOperation_t>(7), 4, 4, f), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ((judged<Op::cublasSscal_v2>(nullptr, 4, f, &one, 1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ((judged<Op::cublasSgemv_v2>(handle, CUBLAS_OP_N, 4, 4, f, f, 4, f, 0, f, &one, 1)),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Loopback, NumbersGoToTheClientsMemoryAlone) {
    curandGenerator_t g = nullptr;
    EXPECT_TRUE((call<Op::curandCreateGeneratorHost>(&g, CURAND_RNG_PSEUDO_DEFAULT).ok()));
    float mine[16];
    const auto draw = [&](CUdeviceptr to, std::size_t count) {
        return call<Op::curandGenerateUniform>(g, reinterpret_cast<float*>(to), count);
    };
    EXPECT_TRUE(draw(region(0), 1000).ok());
    EXPECT_TRUE(draw(world.memory, fake::World::memory_bytes / 4).ok());
    EXPECT_EQ(draw(world.memory, fake::World::memory_bytes / 4 + 1).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(draw(world.memory, ~std::size_t{0} / 2).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(draw(reinterpret_cast<CUdeviceptr>(mine), 16).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(draw(0, 16).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(draw(0, 0).ok());
}
TEST_F(Loopback, AHostWithoutTheLibrarySaysSo) {
    Session session(ground.table, ground.extents, ground, ground.status);  // its libraries are nowhere
    cublasHandle_t handle = nullptr;
    ground.session.libraries() = std::move(session.libraries());
    EXPECT_EQ((call<Op::cublasCreate_v2>(&handle).result), CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
}

}  // namespace
}  // namespace barcuda
