// SPDX-License-Identifier: Apache-2.0
// module.cc: loading and unloading. A launch in flight keeps its module alive, but unloading waits for the context's
// work first, as CUDA does.
#include "soft-gpu/driver/module.h"

#include <algorithm>
#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {

JitLog::JitLog(unsigned count, CUjit_option* options, void** values) {
    const auto size = [&](unsigned i) {
        return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(values[i]) & 0xffffffff);
    };
    for (unsigned i = 0; i < count; ++i) {
        switch (options[i]) {
            case CU_JIT_ERROR_LOG_BUFFER: error_ = static_cast<char*>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                error_size_ = size(i);
                error_filled_ = &values[i];
                break;
            case CU_JIT_INFO_LOG_BUFFER: info_ = static_cast<char*>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                info_size_ = size(i);
                info_filled_ = &values[i];
                break;
            case CU_JIT_LOG_VERBOSE: verbose_ = size(i) != 0; break;
            default: break;  // how to optimize, for which target: no effect here
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
        *filled = reinterpret_cast<void*>(std::min(text.size(), size));  // a truncated text uses all of the room
}

// As ptxas -v prints: what a thread and a block of each kernel need.
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

namespace {

// `of_context`: a module of the program; otherwise a library's.
std::shared_ptr<Module> load(const std::string& ptx, Context& owner, bool of_context, const Module* first,
                             JitLog& log) {
    Driver& driver = Driver::get();
    const auto module = std::make_shared<Module>();
    try {
        Limits limits;
        {
            std::lock_guard lock(owner.limits_mutex);
            limits = owner.limits;
        }
        module->program = Program::load(ptx, limits, driver.space, first ? first->program.get() : nullptr);
    } catch (const Error& error) {
        log.error(error.message);
        throw;
    }
    log.needs(*module->program);
    if (of_context) module->context = owner.shared_from_this();
    module->has_managed = !first;
    for (GlobalInfo& global : module->program->globals()) {
        Allocation range{.base = global.address,
                         .size = global.size,
                         .kind = Allocation::Kind::global,
                         .context = owner.handle(),
                         .device = owner.device};
        if (global.managed) range.flags = CU_MEM_ATTACH_GLOBAL;
        if (global.size != 0 && (module->has_managed || !global.managed))
            driver.memory.adopt(range, CUDA_ERROR_UNKNOWN);
        module->globals.emplace(global.name, std::move(global));
    }
    for (const std::string& name : module->program->kernel_names()) {
        const auto function = std::make_shared<Function>(*module, *module->program->kernel(name));
        const int room = 48 * 1024 - static_cast<int>(function->info.static_shared_bytes);
        function->kernel_dynamic_shared = std::max(room, 0);
        driver.functions.add(function);
        module->functions.emplace(name, function);
    }
    driver.modules.add(module);
    return module;
}

}  // namespace

std::shared_ptr<Module> load_module(const std::string& ptx, std::shared_ptr<Context> context, JitLog& log) {
    return load(ptx, *context, true, nullptr, log);
}
std::shared_ptr<Module> load_module(const std::string& ptx, Context& context, const Module* first, JitLog& log) {
    return load(ptx, context, false, first, log);
}

std::shared_ptr<Module> Library::in(const std::shared_ptr<Context>& context) {
    std::lock_guard lock(mutex);
    if (module->used_by == context->id) return module;
    // A context that has a module keeps it, also after the first context has ended and left its module to another one.
    if (const auto known = others.find(context->id); known != others.end()) return known->second;
    if (module->used_by == 0) {
        module->used_by = context->id;
        for (const auto& [name, global] : module->globals)
            Driver::get().memory.move(global.address, context->handle(), context->device);
        return module;
    }
    JitLog log(0, nullptr, nullptr);
    auto other = load_module(ptx, *context, module.get(), log);
    other->library = module->library;
    other->used_by = context->id;
    return others[context->id] = other;
}

std::vector<std::shared_ptr<Module>> Library::all() const {
    std::lock_guard lock(mutex);
    std::vector<std::shared_ptr<Module>> modules{module};
    for (const auto& [context, other] : others) modules.push_back(other);
    return modules;
}

void Library::leave(const Context& context) {
    std::lock_guard lock(mutex);
    if (module->used_by == context.id) {
        module->program->restart();
        module->used_by = 0;
    }
    if (const auto other = others.find(context.id); other != others.end()) {
        unload_module(other->second);
        others.erase(other);
    }
}

Module::~Module() {
    Driver& driver = Driver::get();
    for (const auto& [name, global] : globals)
        if (has_managed || !global.managed)
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
    for (const auto& library : Driver::get().libraries.all()) library->leave(context);
}

std::shared_ptr<Context> context_here() {
    const auto& stack = context_stack();
    if (stack.empty() || !stack.back()) return Driver::get().device(0).primary;
    return stack.back()->whole ? stack.back()->whole : stack.back();
}

std::shared_ptr<Kernel> kernel_of(CUkernel kernel) { return Driver::get().kernels.find(kernel); }
std::shared_ptr<Function> Kernel::in(const std::shared_ptr<Context>& context) const {
    auto function = library.in(context)->functions.find(name)->second;
    function->loaded = true;
    return function;
}

std::shared_ptr<Function> function_of(CUkernel kernel) { return kernel_of(kernel)->in(context_here()); }
std::shared_ptr<Function> function_of(CUfunction function) {
    if (auto found = Driver::get().functions.try_find(function)) return found;
    return function_of(reinterpret_cast<CUkernel>(function));
}
CUfunction handle_of(const Function& function) { return Handles<CUfunction, Function>::handle_of(function); }

std::shared_ptr<Function> function_in(Context& given, CUfunction handle) {
    Context& context = given.whole ? *given.whole : given;
    auto function = Driver::get().functions.try_find(handle);
    if (!function) return kernel_of(reinterpret_cast<CUkernel>(handle))->in(context.shared_from_this());
    const Module& module = function->module;
    require(module.context ? module.context.get() == &context : module.used_by == context.id,
            CUDA_ERROR_INVALID_HANDLE);
    return function;
}

}  // namespace barcuda::soft::driver
