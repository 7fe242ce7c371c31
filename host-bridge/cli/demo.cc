// SPDX-License-Identifier: Apache-2.0
// demo.cc: `barcuda demo`: a CUDA program that needs no toolkit, so that an installation can be seen to work. It names
// the GPUs, copies a program's own memory to the GPU and back, and adds numbers there. The command starts itself again
// under the library, as `barcuda exec` does in a guest and `barcuda run` without a VM; where the library is in this
// process already, it is that program.
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/run.h"
#include "shm-device/cuda/version.h"
#include "shm-device/region/region.h"

namespace barcuda {
namespace {

// What nvcc makes of: __global__ void add(const float* a, const float* b, float* c, unsigned n), which adds a[i] and
// b[i]. As PTX, which the driver compiles for the GPU that there is.
constexpr const char* kernel = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred past;
    .reg .u32 block, size, thread, i, end;
    .reg .u64 at, base;
    .reg .f32 x, y;
    mov.u32 block, %ctaid.x;
    mov.u32 size, %ntid.x;
    mov.u32 thread, %tid.x;
    mad.lo.u32 i, block, size, thread;
    ld.param.u32 end, [n];
    setp.ge.u32 past, i, end;
    @past bra done;
    mul.wide.u32 at, i, 4;
    ld.param.u64 base, [a];
    cvta.to.global.u64 base, base;
    add.u64 base, base, at;
    ld.global.f32 x, [base];
    ld.param.u64 base, [b];
    cvta.to.global.u64 base, base;
    add.u64 base, base, at;
    ld.global.f32 y, [base];
    add.f32 x, x, y;
    ld.param.u64 base, [c];
    cvta.to.global.u64 base, base;
    add.u64 base, base, at;
    st.global.f32 [base], x;
done:
    ret;
}
)";
constexpr unsigned numbers = 1 << 24;  // 64 MiB of them: long enough to time a copy
constexpr unsigned threads = 256;      // of a block

// The driver's functions, from the library that serves them.
struct Cuda {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name
#define X(name, as) decltype(&::name) name = reinterpret_cast<decltype(&::name)>(dlsym(library, #as));
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    X(cuInit, cuInit)
    X(cuDriverGetVersion, cuDriverGetVersion)
    X(cuDeviceGetCount, cuDeviceGetCount)
    X(cuDeviceGet, cuDeviceGet)
    X(cuDeviceGetName, cuDeviceGetName)
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2)
    X(cuDeviceGetAttribute, cuDeviceGetAttribute)
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)
    X(cuCtxSetCurrent, cuCtxSetCurrent)
    X(cuMemAlloc, cuMemAlloc_v2)
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2)
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2)
    X(cuModuleLoadData, cuModuleLoadData)
    X(cuModuleGetFunction, cuModuleGetFunction)
    X(cuLaunchKernel, cuLaunchKernel)
    X(cuCtxSynchronize, cuCtxSynchronize)
    X(cuGetErrorName, cuGetErrorName)
#undef X
};

struct CudaError {
    std::string text;
};

class Demo {
  public:
    void run() {
        call("cuInit", cuda_.cuInit(0));
        int count = 0;
        call("cuDeviceGetCount", cuda_.cuDeviceGetCount(&count));
        if (count == 0) throw CudaError{"there is no GPU; `barcuda doctor` says why"};
        for (int i = 0; i < count; ++i) tell(i);
        call("cuDeviceGet", cuda_.cuDeviceGet(&device_, 0));
        CUcontext context = nullptr;
        call("cuDevicePrimaryCtxRetain", cuda_.cuDevicePrimaryCtxRetain(&context, device_));
        call("cuCtxSetCurrent", cuda_.cuCtxSetCurrent(context));
        copy();
        add();
    }

  private:
    using Clock = std::chrono::steady_clock;

    void call(const char* function, CUresult result) const {
        if (result == CUDA_SUCCESS) return;
        const char* name = nullptr;
        cuda_.cuGetErrorName(result, &name);
        throw CudaError{fmt::format("{}: {} ({})", function, name ? name : "an error", static_cast<int>(result))};
    }
    static std::string speed(std::size_t bytes, Clock::duration time) {
        return fmt::format("{:.1f} GB/s",
                           static_cast<double>(bytes) / std::chrono::duration<double>(time).count() / 1e9);
    }

    void tell(int index) const {
        CUdevice device = 0;
        char name[96] = "";
        std::size_t memory = 0;
        int version = 0, major = 0, minor = 0;
        call("cuDeviceGet", cuda_.cuDeviceGet(&device, index));
        call("cuDeviceGetName", cuda_.cuDeviceGetName(name, sizeof name, device));
        call("cuDeviceTotalMem", cuda_.cuDeviceTotalMem(&memory, device));
        call("cuDriverGetVersion", cuda_.cuDriverGetVersion(&version));
        call("cuDeviceGetAttribute",
             cuda_.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
        call("cuDeviceGetAttribute",
             cuda_.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
        fmt::print("GPU {}: {}, {:.1f} GiB, compute capability {}.{}, CUDA {}\n", index, name,
                   static_cast<double>(memory) / (1 << 30), major, minor, cuda_version_text(version));
    }

    void copy() {
        std::iota(a_.begin(), a_.end(), 1.0f);
        for (CUdeviceptr* p : {&at_a_, &at_b_, &at_c_}) call("cuMemAlloc", cuda_.cuMemAlloc(p, bytes_));
        call("cuMemcpyHtoD", cuda_.cuMemcpyHtoD(at_a_, a_.data(), bytes_));  // not timed: the first is slower
        const auto begin = Clock::now();
        call("cuMemcpyHtoD", cuda_.cuMemcpyHtoD(at_a_, a_.data(), bytes_));
        const auto between = Clock::now();
        call("cuMemcpyDtoH", cuda_.cuMemcpyDtoH(b_.data(), at_a_, bytes_));
        const auto end = Clock::now();
        if (a_ != b_) throw CudaError{"what came back from the GPU is not what was copied there"};
        fmt::print("copy: {} MiB to the GPU ({}) and back ({}): the same\n", bytes_ >> 20,
                   speed(bytes_, between - begin), speed(bytes_, end - between));
    }

    void add() {
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        call("cuModuleLoadData", cuda_.cuModuleLoadData(&module, kernel));
        call("cuModuleGetFunction", cuda_.cuModuleGetFunction(&function, module, "add"));
        std::ranges::fill(b_, 0.5f);
        call("cuMemcpyHtoD", cuda_.cuMemcpyHtoD(at_b_, b_.data(), bytes_));
        unsigned n = numbers;
        void* parameters[] = {&at_a_, &at_b_, &at_c_, &n};
        call("cuLaunchKernel",
             cuda_.cuLaunchKernel(function, numbers / threads, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr));
        call("cuCtxSynchronize", cuda_.cuCtxSynchronize());
        call("cuMemcpyDtoH", cuda_.cuMemcpyDtoH(b_.data(), at_c_, bytes_));
        for (unsigned i = 0; i < numbers; ++i)
            if (b_[i] != a_[i] + 0.5f) throw CudaError{fmt::format("sum {} is {}, not {}", i, b_[i], a_[i] + 0.5f)};
        fmt::print("add: {} pairs of numbers by a kernel of {} blocks: right\n", numbers, numbers / threads);
    }

    Cuda cuda_;
    CUdevice device_ = 0;
    CUdeviceptr at_a_ = 0, at_b_ = 0, at_c_ = 0;
    std::vector<float> a_ = std::vector<float>(numbers), b_ = std::vector<float>(numbers);
    const std::size_t bytes_ = numbers * sizeof(float);
};

int be_the_program() {
    try {
        Demo().run();
    } catch (const CudaError& error) { return complain("demo", error.text); }
    fmt::print("PASSED\n");
    return 0;
}

int demo(const std::shared_ptr<RunOptions>& options) {
    if (dlsym(RTLD_DEFAULT, "barcuda_guest_library")) return be_the_program();
    const Installation here = installation();
    options->program = {here.command, "demo"};
    char region[256];
    const Error no_region = find_region(region, sizeof region);
    if (no_region || options->bridge.device != "auto") return run(*options);
    if (const std::string lacks = check(here); !lacks.empty()) return complain("demo", lacks, cannot_run);
    put_in_front(here, false, false);
    return become("demo", options->program);
}

}  // namespace

void add_demo(App& app) {
    const auto options = std::make_shared<RunOptions>();
    const Command command = app.add(
        "demo", "run a small CUDA program that is part of this command: which GPU there is, a copy, a kernel",
        [options] { return demo(options); }, cannot_run);
    add_bridge_options(command, options->bridge);
}

}  // namespace barcuda
