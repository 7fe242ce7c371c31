// SPDX-License-Identifier: Apache-2.0
// machine.h: what the PTX tests run on: the software GPU's engine, or with BARCUDA_TEST_LIBCUDA=/path/to/libcuda.so.1
// any driver, a real GPU's too. The same expectations hold on both: a difference is a bug of ours or a fact to write
// down.
#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "soft-gpu/engine.h"
#include "soft-gpu/ptx/native.h"

namespace barcuda::soft::test {

struct Shape {
    unsigned grid = 1, block = 32;
    std::size_t shared = 0;
    bool cooperative = false;
};

// An error of a launch or of loading, as CUresult and text.
struct Failure : std::runtime_error {
    Failure(int c, const std::string& what) : std::runtime_error(what), code(c) {}
    int code;
};

using Buffer = std::span<std::byte>;
template <class T> Buffer bytes_of_vector(std::vector<T>& v) {
    return {reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(T)};
}

// Loads the text and runs one kernel, whose parameters are pointers to copies of the buffers and then 32-bit numbers.
class Machine {
  public:
    virtual ~Machine() = default;
    void run(std::string_view ptx, const char* kernel, Shape shape, std::vector<Buffer> buffers,
             std::vector<unsigned> numbers = {}) {
        keep(ptx);
        run_on_it(ptx, kernel, shape, buffers, numbers);
    }
    virtual bool is_hardware() const = 0;
    std::string printed;

    static Machine& get();

  private:
    virtual void run_on_it(std::string_view ptx, const char* kernel, Shape shape, std::vector<Buffer> buffers,
                           std::vector<unsigned> numbers) = 0;
    // With BARCUDA_TEST_PTX=FOLDER the texts stay there: what the fuzzer begins with.
    static void keep(std::string_view ptx) {
        if (const char* folder = std::getenv("BARCUDA_TEST_PTX"))
            std::ofstream(std::string(folder) + "/" + std::to_string(std::hash<std::string_view>{}(ptx)) + ".ptx")
                << ptx;
    }
};

class Engine final : public Machine {
  public:
    void run_on_it(std::string_view ptx, const char* kernel, Shape shape, std::vector<Buffer> buffers,
                   std::vector<unsigned> numbers) override {
        AddressSpace space;
        Limits limits;
        limits.compute_capability = 100;
        try {
            const auto program = Program::load(ptx, limits, space);
            const auto* info = program->kernel(kernel);
            if (info == nullptr) throw Error{CUDA_ERROR_NOT_FOUND, std::string("no kernel ") + kernel};
            std::vector<std::byte> parameters;
            const auto add = [&](const auto& value) {
                parameters.resize((parameters.size() + sizeof value - 1) / sizeof value * sizeof value + sizeof value);
                std::memcpy(parameters.data() + parameters.size() - sizeof value, &value, sizeof value);
            };
            for (const auto& b : buffers) {
                space.add({reinterpret_cast<std::uintptr_t>(b.data()), b.size(), true});
                add(reinterpret_cast<std::uint64_t>(b.data()));
            }
            for (unsigned n : numbers) add(n);
            parameters.resize(std::max(parameters.size(), info->parameter_bytes));
            LaunchConfig config;
            config.grid[0] = shape.grid;
            config.block[0] = shape.block;
            config.dynamic_shared_bytes = shape.shared;
            config.cooperative = shape.cooperative;
            config.parameters = parameters;
            both_ways(*program, *info, config, space, buffers, ptx);
        } catch (const Error& error) { throw Failure(error.code, error.message); }
    }
    bool is_hardware() const override { return false; }

  private:
    // Interpreted, and then compiled: what the kernel leaves, prints and fails with must be the same.
    void both_ways(Program& program, const KernelInfo& info, const LaunchConfig& config, AddressSpace& space,
                   const std::vector<Buffer>& buffers, std::string_view ptx) {
        struct Outcome {
            std::vector<std::byte> memory;
            std::string text, error;
            int code = 0;
            bool operator==(const Outcome&) const = default;
        };
        const auto contents = [&] {
            std::vector<std::byte> all;
            for (const auto& b : buffers) all.insert(all.end(), b.begin(), b.end());
            return all;
        };
        const auto run = [&](Compiling how) {
            Outcome o;
            compiling = how;
            try {
                execute(program, info, config, space, [&](std::string_view text) { o.text += text; });
            } catch (const Error& error) {
                o.error = error.message;
                o.code = error.code;
            }
            o.memory = contents();
            return o;
        };
        const auto before = contents();
        const Outcome interpreted = run(Compiling::never);
        auto from = before.begin();
        for (const auto& b : buffers) {
            std::copy_n(from, b.size(), b.begin());
            from += static_cast<std::ptrdiff_t>(b.size());
        }
        program.restart();
        const Outcome compiled = run(Compiling::at_once);
        printed += compiled.text;
        // Of several blocks, which is first with an atomic operation is not defined.
        const auto says = [&](std::string_view word) { return ptx.find(word) != ptx.npos; };
        const bool by_chance = says("clock") || says("globaltimer") || (config.grid[0] > 1 && says("atom."));
        if (!by_chance && !(interpreted == compiled))
            throw std::logic_error("compiled, it does something else: " + interpreted.error + interpreted.text + " | " +
                                   compiled.error + compiled.text);
        if (compiled.code != 0) throw Error{compiled.code, compiled.error};
    }
};

class Driver final : public Machine {
  public:
    explicit Driver(const char* path) {
        library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) throw std::runtime_error(dlerror());
        check(call<CUresult (*)(unsigned)>("cuInit")(0), "cuInit");
        CUdevice device = 0;
        check(call<CUresult (*)(CUdevice*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
        CUcontext context = nullptr;
        check(call<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, device),
              "cuDevicePrimaryCtxRetain");
        check(call<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    }
    void run_on_it(std::string_view ptx, const char* kernel, Shape shape, std::vector<Buffer> buffers,
                   std::vector<unsigned> numbers) override {
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        check(call<CUresult (*)(CUmodule*, const void*)>("cuModuleLoadData")(&module, std::string(ptx).c_str()),
              "cuModuleLoadData");
        check(call<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction")(&function, module, kernel),
              "cuModuleGetFunction");
        std::vector<CUdeviceptr> copies;
        std::vector<void*> parameters;
        for (const auto& b : buffers) {
            check(call<CUresult (*)(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(&copies.emplace_back(), b.size()),
                  "cuMemAlloc");
            check(call<CUresult (*)(CUdeviceptr, const void*, std::size_t)>("cuMemcpyHtoD_v2")(copies.back(), b.data(),
                                                                                               b.size()),
                  "cuMemcpyHtoD");
        }
        for (auto& c : copies) parameters.push_back(&c);
        for (auto& n : numbers) parameters.push_back(&n);
        using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    CUstream, void**, void**);
        using Cooperative = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                         unsigned, CUstream, void**);
        const auto shared = static_cast<unsigned>(shape.shared);
        check(shape.cooperative ? call<Cooperative>("cuLaunchCooperativeKernel")(
                                      function, shape.grid, 1, 1, shape.block, 1, 1, shared, nullptr, parameters.data())
                                : call<Launch>("cuLaunchKernel")(function, shape.grid, 1, 1, shape.block, 1, 1, shared,
                                                                 nullptr, parameters.data(), nullptr),
              "cuLaunchKernel");
        check(call<CUresult (*)()>("cuCtxSynchronize")(), "cuCtxSynchronize");
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            check(call<CUresult (*)(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH_v2")(buffers[i].data(), copies[i],
                                                                                         buffers[i].size()),
                  "cuMemcpyDtoH");
            check(call<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(copies[i]), "cuMemFree");
        }
        check(call<CUresult (*)(CUmodule)>("cuModuleUnload")(module), "cuModuleUnload");
    }
    bool is_hardware() const override { return true; }

  private:
    template <class F> F call(const char* name) { return reinterpret_cast<F>(dlsym(library_, name)); }
    static void check(CUresult result, const char* what) {
        if (result != CUDA_SUCCESS) throw Failure(result, std::string(what) + ": CUresult " + std::to_string(result));
    }
    void* library_ = nullptr;
};

inline Machine& Machine::get() {
    static const std::unique_ptr<Machine> machine = []() -> std::unique_ptr<Machine> {
        if (const char* path = std::getenv("BARCUDA_TEST_LIBCUDA")) return std::make_unique<Driver>(path);
        return std::make_unique<Engine>();
    }();
    return *machine;
}

}  // namespace barcuda::soft::test
