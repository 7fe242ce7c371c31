// SPDX-License-Identifier: Apache-2.0
// compile.cc: the library's only entry: takes a prepared function, returns a relocatable object for this processor. It
// uses LLVM's C interface, which is the same from LLVM 14 on. The object contains no addresses: what differs from run
// to run is in `Running`.
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <cstdio>
#include <mutex>

#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

static LLVMTargetMachineRef target_machine() {
    static LLVMTargetMachineRef machine = [] {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        char* const triple = LLVMGetDefaultTargetTriple();
        char* const cpu = LLVMGetHostCPUName();
        char* const features = LLVMGetHostCPUFeatures();
        LLVMTargetRef target = nullptr;
        char* message = nullptr;
        LLVMTargetMachineRef made = nullptr;
        if (LLVMGetTargetFromTriple(triple, &target, &message) == 0)
            made = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                           LLVMCodeModelSmall);
        LLVMDisposeMessage(message);
        LLVMDisposeMessage(triple);
        LLVMDisposeMessage(cpu);
        LLVMDisposeMessage(features);
        return made;
    }();
    return machine;
}

static bool fail(Compiled& result, const char* what, char* message) {
    std::snprintf(result.why_not, sizeof result.why_not, "%s: %s", what, message != nullptr ? message : "");
    LLVMDisposeMessage(message);
    return false;
}

static bool compile(const ToCompile& what, Compiled& result) {
    static std::mutex mutex;  // one target machine
    const std::lock_guard lock(mutex);
    LLVMTargetMachineRef machine = target_machine();
    if (machine == nullptr) return fail(result, "no target for this processor", nullptr);
    Ir ir(what.function->name.c_str());
    Translator translator(ir, what);
    if (!translator.translate()) return fail(result, "nothing to gain", nullptr);
    result.sites = translator.sites();
    char* message = nullptr;
    if (LLVMVerifyModule(ir.module, LLVMReturnStatusAction, &message) != 0) return fail(result, "verify", message);
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error =
        LLVMRunPasses(ir.module, "function(early-cse,instcombine,simplifycfg,early-cse)", machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error != nullptr) {
        char* const text = LLVMGetErrorMessage(error);
        std::snprintf(result.why_not, sizeof result.why_not, "passes: %s", text);
        LLVMDisposeErrorMessage(text);
        return false;
    }
    message = nullptr;
    LLVMMemoryBufferRef object = nullptr;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, ir.module, LLVMObjectFile, &message, &object) != 0)
        return fail(result, "code", message);
    result.object(result.receiver, LLVMGetBufferStart(object), LLVMGetBufferSize(object));
    LLVMDisposeMemoryBuffer(object);
    return true;
}

}  // namespace barcuda::soft::compiler

extern "C" [[gnu::visibility("default")]] bool barcuda_soft_compile(const barcuda::soft::ToCompile* what,
                                                                    barcuda::soft::Compiled* result) {
    return barcuda::soft::compiler::compile(*what, *result);
}
