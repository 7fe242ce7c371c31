// SPDX-License-Identifier: Apache-2.0
// cuBLAS against sums that this program computes itself: every function in both precisions, scalars and results in host
// and in device memory, the order against kernels, copies and other streams, graphs, and what is refused at the call.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"

#define BLAS_CHECK(call)                                                                                            \
    do {                                                                                                            \
        cublasStatus_t status_ = (call);                                                                            \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                     \
            printf("FAILED: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cublasGetStatusName(status_));             \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

// One name for both precisions.
#define BOTH(f)                                                                                              \
    template <class... A> cublasStatus_t f(float, A... a) { return cublasS##f(a...); }                       \
    template <class... A> cublasStatus_t f(double, A... a) { return cublasD##f(a...); }
BOTH(asum) BOTH(nrm2) BOTH(dot) BOTH(copy) BOTH(swap) BOTH(axpy) BOTH(scal) BOTH(gemv) BOTH(ger) BOTH(trsm) BOTH(gemm)
BOTH(gemmBatched) BOTH(gemmStridedBatched) BOTH(getrfBatched) BOTH(trsmBatched)
template <class... A> cublasStatus_t amax(float, A... a) { return cublasIsamax(a...); }
template <class... A> cublasStatus_t amax(double, A... a) { return cublasIdamax(a...); }
template <class... A> cublasStatus_t amin(float, A... a) { return cublasIsamin(a...); }
template <class... A> cublasStatus_t amin(double, A... a) { return cublasIdamin(a...); }

static unsigned long long seed = 1;
template <class T> T number() {
    return T(int((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 33) % 1000) / T(250);
}
template <class T> std::vector<T> numbers(size_t n) {
    std::vector<T> v(n);
    for (T& x : v) x = number<T>();
    return v;
}

template <class T> struct Device {
    T* at = nullptr;
    size_t count;
    explicit Device(size_t n) : count(n) { CHECK(cudaMalloc(&at, (n ? n : 1) * sizeof(T))); }
    explicit Device(const std::vector<T>& v) : Device(v.size()) {
        BLAS_CHECK(cublasSetVector(int(count), sizeof(T), v.data(), 1, at, 1));
    }
    Device(const Device&) = delete;
    ~Device() { CHECK(cudaFree(at)); }
    std::vector<T> get() const {
        std::vector<T> v(count);
        BLAS_CHECK(cublasGetVector(int(count), sizeof(T), at, 1, v.data(), 1));
        return v;
    }
};

template <class T> bool near(T a, T b, double scale = 1) {
    return std::fabs(double(a) - double(b)) <= scale * (sizeof(T) == 4 ? 1e-4 : 1e-12) * (1 + std::fabs(double(b)));
}
template <class T>
void expect(const std::vector<T>& have, const std::vector<T>& want, const char* what, double scale = 1) {
    for (size_t i = 0; i < want.size(); ++i)
        if (!near(have[i], want[i], scale)) {
            printf("FAILED: %s: element %zu is %g, not %g\n", what, i, double(have[i]), double(want[i]));
            exit(1);
        }
}

// C = alpha op(A) op(B) + beta C, by columns.
template <class T> void product(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b,
                                int ldb, T beta, T* c, int ldc) {
    for (int col = 0; col < n; ++col)
        for (int row = 0; row < m; ++row) {
            double sum = 0;
            for (int i = 0; i < k; ++i)
                sum +=
                    double(ta ? a[i + row * lda] : a[row + i * lda]) * double(tb ? b[col + i * ldb] : b[i + col * ldb]);
            c[row + col * ldc] = T(alpha * sum + (beta == T(0) ? 0 : beta * double(c[row + col * ldc])));
        }
}

// A scalar where the pointer mode wants it.
template <class T> struct Given {
    T host;
    Device<T> device;
    bool on_device;
    Given(T value, bool on_device) : host(value), device(std::vector<T>{value}), on_device(on_device) {}
    const T* get() const { return on_device ? device.at : &host; }
};
template <class T, class F> T asked(bool on_device, F call) {
    T host{};
    if (!on_device) {
        BLAS_CHECK(call(&host));
        return host;
    }
    Device<T> device(1);
    BLAS_CHECK(call(device.at));
    return device.get()[0];
}

template <class T> void vectors(cublasHandle_t h, bool on_device) {
    const T t{};
    BLAS_CHECK(cublasSetPointerMode(h, on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    for (int n : {1, 33, 5000}) {
        const auto x = numbers<T>(2 * n), y = numbers<T>(3 * n);
        Device<T> dx(x), dy(y);
        double sum = 0, squares = 0, dot_ = 0;
        int most = 0, least = 0;
        for (int i = 0; i < n; ++i) {
            sum += std::fabs(x[2 * i]), squares += double(x[2 * i]) * x[2 * i], dot_ += double(x[2 * i]) * y[3 * i];
            if (std::fabs(x[2 * i]) > std::fabs(x[2 * most])) most = i;
            if (std::fabs(x[2 * i]) < std::fabs(x[2 * least])) least = i;
        }
        REQUIRE(near(asked<T>(on_device, [&](T* r) { return asum(t, h, n, dx.at, 2, r); }), T(sum)));
        REQUIRE(near(asked<T>(on_device, [&](T* r) { return nrm2(t, h, n, dx.at, 2, r); }), T(std::sqrt(squares))));
        REQUIRE(near(asked<T>(on_device, [&](T* r) { return dot(t, h, n, dx.at, 2, dy.at, 3, r); }), T(dot_), 100));
        REQUIRE(asked<int>(on_device, [&](int* r) { return amax(t, h, n, dx.at, 2, r); }) == most + 1);
        REQUIRE(asked<int>(on_device, [&](int* r) { return amin(t, h, n, dx.at, 2, r); }) == least + 1);

        auto want = y;
        for (int i = 0; i < n; ++i) want[3 * i] += T(-1.5) * x[2 * (n - 1 - i)];  // a negative step walks backwards
        BLAS_CHECK(axpy(t, h, n, Given<T>(T(-1.5), on_device).get(), dx.at, -2, dy.at, 3));
        expect(dy.get(), want, "axpy");
        for (int i = 0; i < n; ++i) want[3 * i] *= T(0.25);
        BLAS_CHECK(scal(t, h, n, Given<T>(T(0.25), on_device).get(), dy.at, 3));
        expect(dy.get(), want, "scal");
        for (int i = 0; i < n; ++i) want[3 * i] = x[2 * i];
        BLAS_CHECK(copy(t, h, n, dx.at, 2, dy.at, 3));
        expect(dy.get(), want, "copy");
        BLAS_CHECK(swap(t, h, n, dx.at, 1, dy.at, 1));
        expect(dx.get(), std::vector<T>(want.begin(), want.begin() + n), "swap");
    }
}

template <class T> void matrices(cublasHandle_t h, bool on_device) {
    const T t{};
    BLAS_CHECK(cublasSetPointerMode(h, on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    const int m = 37, n = 21, k = 29, ld = 41;
    const Given<T> alpha(T(0.75), on_device), beta(T(-0.5), on_device), zero(T(0), on_device), one(T(1), on_device);
    for (int form = 0; form < 4; ++form) {
        const bool ta = form & 1, tb = form & 2;
        const auto a = numbers<T>(ld * ld), b = numbers<T>(ld * ld);
        auto c = numbers<T>(ld * ld);
        Device<T> da(a), db(b), dc(c);
        BLAS_CHECK(gemm(t, h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, alpha.get(),
                        da.at, ld, db.at, ld, beta.get(), dc.at, ld));
        product<T>(ta, tb, m, n, k, alpha.host, a.data(), ld, b.data(), ld, beta.host, c.data(), ld);
        expect(dc.get(), c, "gemm", 100);

        auto y = numbers<T>(2 * ld);
        Device<T> dy(y);
        const int rows = ta ? n : m, cols = ta ? m : n;
        BLAS_CHECK(
            gemv(t, h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, alpha.get(), da.at, ld, db.at, 1, beta.get(), dy.at, 2));
        std::vector<T> dense(rows);
        for (int i = 0; i < rows; ++i) dense[i] = y[2 * i];
        product<T>(ta, false, rows, 1, cols, alpha.host, a.data(), ld, b.data(), ld, beta.host, dense.data(), rows);
        for (int i = 0; i < rows; ++i) y[2 * i] = dense[i];
        expect(dy.get(), y, "gemv", 100);
    }
    {
        const auto x = numbers<T>(m), y = numbers<T>(n);
        auto a = numbers<T>(ld * n);
        Device<T> dx(x), dy(y), da(a);
        BLAS_CHECK(ger(t, h, m, n, alpha.get(), dx.at, 1, dy.at, 1, da.at, ld));
        for (int col = 0; col < n; ++col)
            for (int row = 0; row < m; ++row) a[row + col * ld] += alpha.host * x[row] * y[col];
        expect(da.get(), a, "ger", 10);
    }
    {  // what is solved is what was multiplied
        auto a = numbers<T>(m * m);
        for (int i = 0; i < m; ++i) {
            for (int j = 0; j < m; ++j) a[i + j * m] *= i > j ? T(0.01) : T(0);
            a[i + i * m] = T(2);
        }
        const auto x = numbers<T>(m * n);
        std::vector<T> b(m * n);
        product<T>(false, false, m, n, m, T(1), a.data(), m, x.data(), m, T(0), b.data(), m);
        Device<T> da(a), db(b);
        BLAS_CHECK(trsm(t, h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, m, n,
                        one.get(), da.at, m, db.at, m));
        expect(db.get(), x, "trsm", 100);
        Device<T> again(b);
        Device<const T*> as(std::vector<const T*>{da.at});
        Device<T*> bs(std::vector<T*>{again.at});
        BLAS_CHECK(trsmBatched(t, h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, m, n,
                               one.get(), as.at, m, bs.at, m, 1));
        expect(again.get(), x, "trsmBatched", 100);
    }
    {  // rows exchanged as the pivots say, A is L times U; of a matrix of zeros the first pivot is none
        auto a = numbers<T>(2 * m * m);
        std::fill(a.begin() + m * m, a.end(), T(0));
        Device<T> da(a);
        Device<T*> das(std::vector<T*>{da.at, da.at + m * m});
        Device<int> pivots(2 * m), info(2);
        BLAS_CHECK(getrfBatched(t, h, m, das.at, m, pivots.at, info.at, 2));
        const auto lu = da.get();
        const auto swaps = pivots.get();
        for (int i = 0; i < m; ++i)
            for (int col = 0; col < m; ++col) std::swap(a[i + col * m], a[swaps[i] - 1 + col * m]);
        for (int row = 0; row < m; ++row)
            for (int col = 0; col < m; ++col) {
                double sum = 0;
                for (int i = 0; i <= row && i <= col; ++i)
                    sum += (i == row ? 1 : double(lu[row + i * m])) * double(lu[i + col * m]);
                REQUIRE(near(T(sum), a[row + col * m], 100));
            }
        REQUIRE(info.get()[0] == 0 && info.get()[1] != 0);
    }
    {  // three products, apart in memory and named by an array; C is not read where beta is 0
        const int count = 3, apart = ld * n;
        const auto a = numbers<T>(ld * k * count), b = numbers<T>(ld * n * count);
        std::vector<T> c(apart * count, T(NAN)), want(apart * count, T(NAN));
        for (int i = 0; i < count; ++i)
            product<T>(false, false, m, n, k, alpha.host, &a[i * ld * k], ld, &b[i * apart], ld, T(0), &want[i * apart],
                       ld);
        for (bool strided : {true, false}) {
            Device<T> da(a), db(b), dc(c);
            std::vector<const T*> as, bs;
            std::vector<T*> cs;
            for (int i = 0; i < count; ++i)
                as.push_back(da.at + i * ld * k), bs.push_back(db.at + i * apart), cs.push_back(dc.at + i * apart);
            Device<const T*> das(as), dbs(bs);
            Device<T*> dcs(cs);
            if (strided)
                BLAS_CHECK(gemmStridedBatched(t, h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha.get(), (const T*)da.at, ld, (long long)(ld * k), (const T*)db.at, ld,
                                              (long long)apart, zero.get(), dc.at, ld, (long long)apart, count));
            else
                BLAS_CHECK(gemmBatched(t, h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha.get(), das.at, ld, dbs.at, ld,
                                       zero.get(), dcs.at, ld, count));
            const auto have = dc.get();
            for (int i = 0; i < count; ++i)
                for (int col = 0; col < n; ++col)
                    for (int row = 0; row < m; ++row) {
                        const int at = i * apart + row + col * ld;
                        REQUIRE(near(have[at], want[at], 100));
                    }
        }
    }
}

void halves(cublasHandle_t h) {
    BLAS_CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
    const int n = 32;
    std::vector<__half> a(n * n), b(n * n);
    std::vector<float> fa(n * n), fb(n * n), want(n * n);
    for (int i = 0; i < n * n; ++i)
        a[i] = __float2half(fa[i] = float(i % 7) - 3), b[i] = __float2half(fb[i] = float(i % 5) - 2);
    product<float>(false, true, n, n, n, 2.f, fa.data(), n, fb.data(), n, 0.f, want.data(), n);
    Device<__half> da(a), db(b);
    Device<float> dc(n * n);
    const float alpha = 2, beta = 0;
    BLAS_CHECK(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &alpha, da.at, CUDA_R_16F, n, db.at, CUDA_R_16F, n,
                            &beta, dc.at, CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    expect(dc.get(), want, "GemmEx");
    BLAS_CHECK(cublasGemmStridedBatchedEx(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n / 2, n, &alpha, da.at, CUDA_R_16F, n, 0, db.at, CUDA_R_16F, n, n / 2, &beta, dc.at, CUDA_R_32F, n, n * n / 2, 2,
                                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    expect(dc.get(), want, "GemmStridedBatchedEx");  // two halves of the same product
    CHECK(cudaMemset(dc.at, 0, dc.count * sizeof(float)));
    Device<const void*> as(std::vector<const void*>{da.at, da.at}), bs(std::vector<const void*>{db.at, db.at + n / 2});
    Device<void*> cs(std::vector<void*>{dc.at, dc.at + n * n / 2});
    BLAS_CHECK(cublasGemmBatchedEx(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n / 2, n, &alpha, as.at, CUDA_R_16F, n, bs.at, CUDA_R_16F, n, &beta, cs.at, CUDA_R_32F, n, 2, CUBLAS_COMPUTE_32F,
                                   CUBLAS_GEMM_DEFAULT));
    expect(dc.get(), want, "GemmBatchedEx");
}

__global__ void fill(float* x, int n, float value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = value;
}
__global__ void add(float* x, int n, float value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += value;
}

// Kernels, copies and products follow one another as they are given, in each of several streams.
void order(cublasHandle_t h) {
    BLAS_CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
    const int n = 4096, streams = 3;
    cudaStream_t s[streams];
    float *x[streams], *pinned[streams];
    for (int i = 0; i < streams; ++i) {
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        CHECK(cudaMalloc(&x[i], n * sizeof(float)));
        CHECK(cudaMallocHost(&pinned[i], n * sizeof(float)));
    }
    for (int round = 0; round < 20; ++round)
        for (int i = 0; i < streams; ++i) {
            const float twice = 2, y = 3;
            BLAS_CHECK(cublasSetStream(h, s[i]));
            cudaStream_t told = nullptr;
            BLAS_CHECK(cublasGetStream(h, &told));
            REQUIRE(told == s[i]);
            fill<<<4, 64, 0, s[i]>>>(x[i], n, float(i + round));
            BLAS_CHECK(cublasSscal(h, n, &twice, x[i], 1));
            add<<<4, 64, 0, s[i]>>>(x[i], n, 1);
            BLAS_CHECK(cublasSaxpy(h, n, &y, x[i], 1, x[i], 1));
            CHECK(cudaMemcpyAsync(pinned[i], x[i], n * sizeof(float), cudaMemcpyDeviceToHost, s[i]));
            float sum = 0;
            BLAS_CHECK(cublasSasum(h, n, x[i], 1, &sum));  // waits for its stream
            REQUIRE(near(sum, n * 4 * (2 * float(i + round) + 1)));
            REQUIRE(pinned[i][n - 1] == 4 * (2 * float(i + round) + 1));
        }
    BLAS_CHECK(cublasSetStream(h, nullptr));
    for (int i = 0; i < streams; ++i) {
        CHECK(cudaFree(x[i]));
        CHECK(cudaFreeHost(pinned[i]));
        CHECK(cudaStreamDestroy(s[i]));
    }
}

// A graph holds what cuBLAS was asked for while it was captured, the scalar as it was then.
void graph(cublasHandle_t h) {
    const int n = 512;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    Device<float> x(std::vector<float>(n, 1.f)), space(1 << 22);
    BLAS_CHECK(cublasSetStream(h, s));
    BLAS_CHECK(cublasSetWorkspace(h, space.at, space.count * sizeof(float)));
    float by = 3;
    BLAS_CHECK(cublasSscal(h, n, &by, x.at, 1));  // loads what it needs
    CHECK(cudaStreamSynchronize(s));
    cudaGraph_t g;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    by = 2;
    BLAS_CHECK(cublasSscal(h, n, &by, x.at, 1));
    by = 100;
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiateWithFlags(&exec, g, 0));  // as CUDA 11 has it too (test_older_runtime.py)
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    expect(x.get(), std::vector<float>(n, 24.f), "a graph");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(g));
    BLAS_CHECK(cublasSetStream(h, nullptr));
    CHECK(cudaStreamDestroy(s));
}

// The CPU, a kernel of the library's and the library's scalars have the same managed memory.
void managed(cublasHandle_t h) {
    const int n = 5000;
    float *x, *factor;
    REQUIRE(cudaMallocManaged(&x, n * sizeof *x) == cudaSuccess &&
            cudaMallocManaged(&factor, sizeof *factor) == cudaSuccess);
    BLAS_CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
    for (int i = 0; i < n; ++i) x[i] = float(i);
    for (int round = 1; round <= 3; ++round) {
        *factor = float(round);
        BLAS_CHECK(cublasSscal(h, n, factor, x, 1));
        BLAS_CHECK(cublasSaxpy(h, n, factor, x, 1, x, 1));
        BLAS_CHECK(cublasScopy(h, 1, x + 1, 1, factor, 1));  // a scalar that the device has written
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        BLAS_CHECK(cublasSscal(h, 1, factor, x + 2, 1));
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        REQUIRE(x[2] == 2 * *factor * *factor);
        x[2] = 2 * *factor;
    }
    for (int i = 0; i < n; ++i) REQUIRE(x[i] == float(i) * 1 * 2 * 2 * 3 * 3 * 4);
    REQUIRE(cudaFree(x) == cudaSuccess && cudaFree(factor) == cudaSuccess);
}

// What one stream's kernel has sent to the device is there for the library in another stream.
__global__ void look(const float*) {}
void managed_in_two_streams(cublasHandle_t h) {
    const int n = 16 << 20, last = 1000;
    float *x, sum;
    REQUIRE(cudaMallocManaged(&x, n * sizeof *x) == cudaSuccess);
    cudaStream_t s[2];
    for (cudaStream_t& each : s) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    BLAS_CHECK(cublasSetStream(h, s[1]));
    for (int round = 1; round <= 4; ++round) {
        for (int i = 0; i < n; ++i) x[i] = float(round);
        look<<<1, 1, 0, s[0]>>>(x);
        BLAS_CHECK(cublasSasum(h, last, x + n - last, 1, &sum));
        REQUIRE(sum == float(last * round));
        CHECK(cudaDeviceSynchronize());
    }
    BLAS_CHECK(cublasSetStream(h, nullptr));
    for (cudaStream_t each : s) CHECK(cudaStreamDestroy(each));
    REQUIRE(cudaFree(x) == cudaSuccess);
}

void copies() {
    const int rows = 5, cols = 7, lda = 9, ldb = 6;
    std::vector<double> a(lda * cols), back(lda * cols, -1);
    for (size_t i = 0; i < a.size(); ++i) a[i] = double(i);
    Device<double> b(ldb * cols);
    BLAS_CHECK(cublasSetMatrix(rows, cols, sizeof(double), a.data(), lda, b.at, ldb));
    BLAS_CHECK(cublasGetMatrix(rows, cols, sizeof(double), b.at, ldb, back.data(), lda));
    for (int i = 0; i < lda * cols; ++i) REQUIRE(back[i] == (i % lda < rows ? a[i] : -1));
    std::vector<double> every(10, -1);
    BLAS_CHECK(cublasSetVector(5, sizeof(double), a.data(), 3, b.at, 2));
    BLAS_CHECK(cublasGetVector(5, sizeof(double), b.at, 2, every.data(), 2));
    for (int i = 0; i < 10; ++i) REQUIRE(every[i] == (i % 2 ? -1 : a[i / 2 * 3]));
    REQUIRE(cublasSetVector(5, sizeof(double), a.data(), 0, b.at, 1) == CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(cublasSetMatrix(5, 5, sizeof(double), a.data(), 0, b.at, 5) == CUBLAS_STATUS_INVALID_VALUE);
}

void errors(cublasHandle_t h) {
    BLAS_CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
    Device<float> x(std::vector<float>(64, 1.f));
    const float one = 1;
    const auto product_of = [&](int m, int lda, const float* alpha) {
        return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, 4, 4, alpha, x.at, lda, x.at, 4, &one, x.at, 4);
    };
    REQUIRE(product_of(-1, 4, &one) == CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(product_of(4, 3, &one) == CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(product_of(4, 4, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(cublasSscal(nullptr, 4, &one, x.at, 1) == CUBLAS_STATUS_NOT_INITIALIZED);
    REQUIRE(cublasDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
    float sum = -1;
    BLAS_CHECK(cublasSasum(h, 0, x.at, 1, &sum));  // of nothing
    REQUIRE(sum == 0);
    // In a stream that was destroyed. NVIDIA's library crashes there, so only Barcuda's is asked.
    Dl_info library = {};
    void* const opened = dlopen("libcublas.so.13", RTLD_LAZY | RTLD_NOLOAD);
    if (opened && dladdr(dlsym(opened, "cublasSasum_v2"), &library) && strstr(library.dli_fname, "barcuda")) {
        cudaStream_t gone;
        CHECK(cudaStreamCreate(&gone));
        BLAS_CHECK(cublasSetStream(h, gone));
        CHECK(cudaStreamDestroy(gone));
        REQUIRE(product_of(4, 4, &one) == CUBLAS_STATUS_EXECUTION_FAILED);
        REQUIRE(cublasSasum(h, 4, x.at, 1, &sum) == CUBLAS_STATUS_EXECUTION_FAILED);
        BLAS_CHECK(cublasSetStream(h, nullptr));
    }
    BLAS_CHECK(cublasSasum(h, 4, x.at, 1, &sum));
    REQUIRE(sum == 4);
    expect(x.get(), std::vector<float>(64, 1.f), "what was refused");
    CHECK(cudaDeviceSynchronize());
}

int main() {
    cublasHandle_t h;
    BLAS_CHECK(cublasCreate(&h));
    int version = 0;
    BLAS_CHECK(cublasGetVersion(h, &version));
    REQUIRE(version >= 120000);
    cublasPointerMode_t mode;
    BLAS_CHECK(cublasGetPointerMode(h, &mode));
    REQUIRE(mode == CUBLAS_POINTER_MODE_HOST);
    BLAS_CHECK(cublasSetMathMode(h, CUBLAS_PEDANTIC_MATH));
    cublasMath_t math;
    BLAS_CHECK(cublasGetMathMode(h, &math));
    REQUIRE(math == CUBLAS_PEDANTIC_MATH);
    BLAS_CHECK(cublasSetMathMode(h, CUBLAS_DEFAULT_MATH));
    copies();
    managed(h);
    managed_in_two_streams(h);
    for (bool on_device : {false, true}) {
        vectors<float>(h, on_device), vectors<double>(h, on_device);
        matrices<float>(h, on_device), matrices<double>(h, on_device);
    }
    halves(h);
    order(h);
    graph(h);
    errors(h);
    cublasHandle_t other;
    BLAS_CHECK(cublasCreate(&other));
    BLAS_CHECK(cublasDestroy(other));
    BLAS_CHECK(cublasDestroy(h));
    return verdict(0);
}
