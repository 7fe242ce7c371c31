// module.cc: loading and unloading. A launch in flight keeps its module alive, but unloading waits for the context's
// work first, as CUDA does.
#include "host-bridge/soft-gpu/driver/module.h"

#include <algorithm>
#include <cstring>

#include "host-bridge/soft-gpu/driver/context.h"
#include "host-bridge/soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {

JitLog::JitLog(unsigned count, CUjit_option* options, void** values) {
    const auto size = [&](unsigned i) {
        return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(values[i]) & 0xffffffff);
    };
    for (unsigned i = 0; i < count; ++i) {
        switch (options[i]) {
            case CU_JIT_ERROR_LOG_BUFFER: error_ = static_cast<char*>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: error_size_ = size(i), error_filled_ = &values[i]; break;
            case CU_JIT_INFO_LOG_BUFFER: info_ = static_cast<char*>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: info_size_ = size(i), info_filled_ = &values[i]; break;
            case CU_JIT_LOG_VERBOSE: verbose_ = size(i) != 0; break;
            default: break;  // how to optimize, for which target: nothing to choose here
        }
    }
    error({});
    info({});
}

void JitLog::write(const std::string& text, char* buffer, std::size_t size, void** filled) {
    if (!buffer || size == 0) return;
    const std::size_t length = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
    if (filled)
        *filled = reinterpret_cast<void*>(std::min(text.size(), size));  // of a text that is cut, all of the room
}

// As ptxas -v does: what a thread and a block of each kernel need.
void JitLog::needs(const Program& program) {
    if (!verbose_ || !info_) return;
    std::string text;
    for (const std::string& name : program.kernel_names()) {
        const KernelInfo& k = *program.kernel(name);
        text += "kernel '" + name + "': " + std::to_string(k.registers) + " registers, " +
                std::to_string(k.local_bytes) + " bytes of local memory, " + std::to_string(k.static_shared_bytes) +
                " bytes of shared memory, " + std::to_string(k.parameter_bytes) + " bytes of parameters\n";
    }
    info(text);
}

std::shared_ptr<Module> load_module(const std::string& ptx, std::shared_ptr<Context> context, JitLog& log) {
    Driver& driver = Driver::get();
    const auto module = std::make_shared<Module>();
    try {
        Context& limits_of = context ? *context : *driver.primary;
        Limits limits;
        {
            std::lock_guard lock(limits_of.limits_mutex);
            limits = limits_of.limits;
        }
        module->program = Program::load(ptx, limits, driver.space);
    } catch (const Error& error) {
        log.error(error.message);
        throw;
    }
    log.needs(*module->program);
    module->context = std::move(context);
    for (const std::string& name : module->program->kernel_names()) {
        const auto function = std::make_shared<Function>(*module, *module->program->kernel(name));
        const int room = 48 * 1024 - static_cast<int>(function->info.static_shared_bytes);
        function->max_dynamic_shared = std::max(room, 0);
        driver.functions.add(function);
        module->functions.emplace(name, function);
    }
    for (GlobalInfo& global : module->program->globals()) {
        Allocation range{.base = global.address,
                         .size = global.size,
                         .kind = Allocation::Kind::global,
                         .context = module->context ? module->context->handle() : driver.primary->handle()};
        if (global.managed) range.flags = CU_MEM_ATTACH_GLOBAL;
        if (global.size != 0) driver.memory.adopt(range, CUDA_ERROR_UNKNOWN);
        module->globals.emplace(global.name, std::move(global));
    }
    driver.modules.add(module);
    return module;
}

Module::~Module() {
    Driver& driver = Driver::get();
    for (const auto& [name, global] : globals)
        driver.memory.remove_all([&, at = global.address](const Allocation& allocation) {
            return allocation.base == at && allocation.kind == Allocation::Kind::global;
        });
}

void unload_module(const std::shared_ptr<Module>& module) {
    Driver& driver = Driver::get();
    if (module->context) module->context->synchronize();
    driver.modules.take_if([&](const Module& each) { return &each == module.get(); });
    driver.functions.take_if([&](const Function& each) { return &each.module == module.get(); });
}

void drop_modules(Context& context) {
    for (const auto& module :
         Driver::get().modules.take_if([&](const Module& each) { return each.context.get() == &context; }))
        Driver::get().functions.take_if([&](const Function& each) { return &each.module == module.get(); });
}

std::shared_ptr<Function> function_of(CUfunction function) { return Driver::get().functions.find(function); }
std::shared_ptr<Function> function_of(CUkernel kernel) { return function_of(reinterpret_cast<CUfunction>(kernel)); }
CUfunction handle_of(const Function& function) { return Handles<CUfunction, Function>::handle_of(function); }

}  // namespace barcuda::soft::driver
