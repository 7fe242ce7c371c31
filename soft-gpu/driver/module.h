// SPDX-License-Identifier: Apache-2.0
// module.h: a loaded Program (engine.h) and the API's names for its parts. A library (cuLibrary*) is a module in each
// context that uses it; a CUkernel is a CUfunction in each.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

class Context;
struct Module;
struct Library;

struct Function {
    Function(Module& module, const KernelInfo& info) : module(module), info(info) {}
    Module& module;  // module.shared_from_this() keeps it alive
    const KernelInfo& info;
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: the kernel's, until the function has its own.
    std::atomic<int> kernel_dynamic_shared{0}, own_dynamic_shared{none};
    static constexpr int none = -1;
    int max_dynamic_shared() const {
        const int own = own_dynamic_shared;
        return own == none ? kernel_dynamic_shared.load() : own;
    }
    // False: it came in a list (cuModuleEnumerateFunctions), and no call has needed it yet.
    std::atomic<bool> loaded{false};
    std::atomic<int> carveout{-1}, cluster_policy{0}, non_portable_cluster{0};
    std::atomic<int> cluster[3]{};  // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_*
};

struct Module : std::enable_shared_from_this<Module> {
    std::shared_ptr<Context> context;  // none: a library's
    std::uint64_t used_by = 0;         // for a library: id of the context; 0: none yet
    CUlibrary library = nullptr;
    std::unique_ptr<Program> program;
    std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;
    std::map<std::string, GlobalInfo, std::less<>> globals;
    bool has_managed = true;  // otherwise its managed variables belong to another module

    ~Module();
    CUmodule handle() const { return reinterpret_cast<CUmodule>(const_cast<Module*>(this)); }
};

struct Kernel {
    Kernel(Library& library, std::string name) : library(library), name(std::move(name)) {}
    Library& library;
    const std::string name;
    std::shared_ptr<Function> in(const std::shared_ptr<Context>& context) const;
};

// Each context has its own copy of a library's variables, except managed ones.
struct Library {
    std::shared_ptr<Module>
        module;  // what the library was found to be when it was loaded: of the first context that uses it
    std::shared_ptr<Module> in(const std::shared_ptr<Context>& context);
    std::vector<std::shared_ptr<Module>> all() const;
    void leave(const Context& context);

    std::string ptx;
    std::map<std::string, std::shared_ptr<Kernel>, std::less<>> kernels;

  private:
    mutable std::mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<Module>> others;  // by the context's id
};

// The output buffers in a call's JIT options: see cuModuleLoadDataEx.
class JitLog {
  public:
    JitLog(unsigned count, CUjit_option* options, void** values);
    void error(const std::string& text) { write(text, error_, error_size_, error_filled_); }
    void info(const std::string& text) { write(text, info_, info_size_, info_filled_); }
    void needs(const Program& program);  // if it was requested

  private:
    static void write(const std::string& text, char* buffer, std::size_t size, void** filled);
    char *error_ = nullptr, *info_ = nullptr;
    std::size_t error_size_ = 0, info_size_ = 0;
    void **error_filled_ = nullptr, **info_filled_ = nullptr;
    bool verbose_ = false;
};

// Loads PTX text and adds it to the driver's tables. Throws Error; `log` gets the message, too.
std::shared_ptr<Module> load_module(const std::string& ptx, std::shared_ptr<Context> context, JitLog& log);
// The same for a library. `first`: its first module, or null.
std::shared_ptr<Module> load_module(const std::string& ptx, Context& context, const Module* first, JitLog& log);
void unload_module(const std::shared_ptr<Module>& module);
void drop_modules(Context& context);

// The function of a handle, or of a kernel's handle in the calling thread's context. Throws CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<Function> function_of(CUfunction function);
std::shared_ptr<Function> function_of(CUkernel kernel);
std::shared_ptr<Kernel> kernel_of(CUkernel kernel);
CUfunction handle_of(const Function& function);
// The same for a launch in this context. Also throws for a function of another context.
std::shared_ptr<Function> function_in(Context& context, CUfunction function);
// The calling thread's context; without one, the first device's primary one.
std::shared_ptr<Context> context_here();

// Its references have the textures that the program has set by now (texture_reference_calls.cc).
void make_references(const Module& module);

// What a launch needs beyond its shape. Throws what cuLaunchKernel returns for a shape that cannot run.
void check_shape(const Function& function, const LaunchConfig& config);

}  // namespace barcuda::soft::driver
