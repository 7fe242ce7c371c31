// module.h: a loaded Program (engine.h) and what the API names in it. A library (cuLibrary*) is a module that belongs
// to no context, and a CUkernel is the same object as its CUfunction.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "host-bridge/soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

class Context;
struct Module;

struct Function {
    Function(Module& module, const KernelInfo& info) : module(module), info(info) {}
    Module& module;  // keep it alive by module.shared_from_this()
    const KernelInfo& info;
    std::atomic<int> max_dynamic_shared{0};  // raised by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    std::atomic<int> carveout{-1}, cluster_policy{0}, non_portable_cluster{0};
    std::atomic<int> cluster[3]{};  // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_*
};

struct Module : std::enable_shared_from_this<Module> {
    std::shared_ptr<Context> context;  // none: of a library
    CUlibrary library = nullptr;
    std::unique_ptr<Program> program;
    std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;
    std::map<std::string, GlobalInfo, std::less<>> globals;

    ~Module();
    CUmodule handle() const { return reinterpret_cast<CUmodule>(const_cast<Module*>(this)); }
};

struct Library {
    std::shared_ptr<Module> module;
};

// The output buffers among a call's JIT options: see cuModuleLoadDataEx.
class JitLog {
  public:
    JitLog(unsigned count, CUjit_option* options, void** values);
    void error(const std::string& text) { write(text, error_, error_size_, error_filled_); }
    void info(const std::string& text) { write(text, info_, info_size_, info_filled_); }
    void needs(const Program& program);  // where it is asked for

  private:
    static void write(const std::string& text, char* buffer, std::size_t size, void** filled);
    char *error_ = nullptr, *info_ = nullptr;
    std::size_t error_size_ = 0, info_size_ = 0;
    void **error_filled_ = nullptr, **info_filled_ = nullptr;
    bool verbose_ = false;
};

// Loads PTX text and enters it in the driver's tables. Throws Error; `log` gets the message, too.
std::shared_ptr<Module> load_module(const std::string& ptx, std::shared_ptr<Context> context, JitLog& log);
void unload_module(const std::shared_ptr<Module>& module);
void drop_modules(Context& context);

// A function or a kernel handle. Throws CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<Function> function_of(CUfunction function);
std::shared_ptr<Function> function_of(CUkernel kernel);
CUfunction handle_of(const Function& function);

// What a launch needs beyond its shape. Throws what cuLaunchKernel returns for a shape that cannot run.
void check_shape(const Function& function, const LaunchConfig& config);

}  // namespace barcuda::soft::driver
