// SPDX-License-Identifier: Apache-2.0
// ir.h: short names for LLVM's builder, through its C interface, which has been stable for years. Values of a warp are
// vectors of 32; values of half a warp, vectors of 16. Addresses are numbers until they are used.
#pragma once
#include <llvm-c/Core.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace barcuda::soft::compiler {

using V = LLVMValueRef;
using T = LLVMTypeRef;
using B = LLVMBasicBlockRef;

class Ir {
  public:
    explicit Ir(const char* name)
        : context(LLVMContextCreate()),
          module(LLVMModuleCreateWithNameInContext(name, context)),
          at(LLVMCreateBuilderInContext(context)) {}
    ~Ir() {
        LLVMDisposeBuilder(at);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
    Ir(const Ir&) = delete;
    Ir& operator=(const Ir&) = delete;

    const LLVMContextRef context;
    const LLVMModuleRef module;
    const LLVMBuilderRef at;
    V function = nullptr;

    // types
    T bit() const { return LLVMInt1TypeInContext(context); }
    T integer(unsigned bytes) const { return LLVMIntTypeInContext(context, 8 * bytes); }
    T real(unsigned bytes) const {
        return bytes == 8 ? LLVMDoubleTypeInContext(context) : LLVMFloatTypeInContext(context);
    }
    T of(T element, unsigned n = 32) const { return LLVMVectorType(element, n); }

    // constants
    V number(std::uint64_t value, unsigned bytes) const { return LLVMConstInt(integer(bytes), value, false); }
    V yes(bool value) const { return LLVMConstInt(bit(), value, false); }
    V same(V element, unsigned n = 32) const {  // of a constant
        std::vector<V> all(n, element);
        return LLVMConstVector(all.data(), n);
    }
    V all(std::uint64_t value, unsigned bytes, unsigned n = 32) const { return same(number(value, bytes), n); }
    V reals(double value, unsigned bytes, unsigned n = 32) const { return same(LLVMConstReal(real(bytes), value), n); }
    V ramp(std::uint64_t step, unsigned bytes, unsigned n) const {
        std::vector<V> all;
        for (unsigned i = 0; i < n; ++i) all.push_back(number(i * step, bytes));
        return LLVMConstVector(all.data(), n);
    }

    // values
    V splat(V scalar, unsigned n = 32) const {
        if (LLVMIsConstant(scalar)) return same(scalar, n);
        V one = LLVMBuildInsertElement(at, LLVMGetUndef(of(LLVMTypeOf(scalar), n)), scalar, number(0, 4), "");
        return LLVMBuildShuffleVector(at, one, LLVMGetUndef(of(LLVMTypeOf(scalar), n)), all(0, 4, n), "");
    }
    V element(V vector, unsigned i) const { return LLVMBuildExtractElement(at, vector, number(i, 4), ""); }
    V lanes(V vector, unsigned from, unsigned n, unsigned stride = 1) const {
        std::vector<V> which;
        for (unsigned i = 0; i < n; ++i) which.push_back(number(from + i * stride, 4));
        return LLVMBuildShuffleVector(at, vector, LLVMGetUndef(LLVMTypeOf(vector)), LLVMConstVector(which.data(), n),
                                      "");
    }
    V joined(V low, V high) const {
        const unsigned n = LLVMGetVectorSize(LLVMTypeOf(low));
        return LLVMBuildShuffleVector(at, low, high, ramp(1, 4, 2 * n), "");
    }
    V as(V value, T type) const { return LLVMBuildBitCast(at, value, type, ""); }
    V choose(V condition, V a, V b) const { return LLVMBuildSelect(at, condition, a, b, ""); }
    V compare(LLVMIntPredicate p, V a, V b) const { return LLVMBuildICmp(at, p, a, b, ""); }
    V compare(LLVMRealPredicate p, V a, V b) const { return LLVMBuildFCmp(at, p, a, b, ""); }
    V both(V a, V b) const { return LLVMBuildAnd(at, a, b, ""); }
    V either(V a, V b) const { return LLVMBuildOr(at, a, b, ""); }
    V add(V a, V b) const { return LLVMBuildAdd(at, a, b, ""); }
    V minus(V a, V b) const { return LLVMBuildSub(at, a, b, ""); }

    // An intrinsic over one type: "llvm.fma"
    V intrinsic(const char* name, T over, std::initializer_list<V> arguments) const {
        const unsigned id = LLVMLookupIntrinsicID(name, std::string(name).size());
        V f = LLVMGetIntrinsicDeclaration(module, id, &over, 1);
        std::vector<V> a(arguments);
        return LLVMBuildCall2(at, LLVMIntrinsicGetType(context, id, &over, 1), f, a.data(),
                              static_cast<unsigned>(a.size()), "");
    }

    // memory: an address is a number
    V pointer(V address, T to) const { return LLVMBuildIntToPtr(at, address, LLVMPointerType(to, 0), ""); }
    V load(V address, T type, unsigned align) const {
        V v = LLVMBuildLoad2(at, type, pointer(address, type), "");
        LLVMSetAlignment(v, align);
        return v;
    }
    void store(V address, V value, unsigned align) const {
        LLVMSetAlignment(LLVMBuildStore(at, value, pointer(address, LLVMTypeOf(value))), align);
    }

    // flow
    B block(const char* name = "") const { return LLVMAppendBasicBlockInContext(context, function, name); }
    B here() const { return LLVMGetInsertBlock(at); }
    void go(B to) const { LLVMPositionBuilderAtEnd(at, to); }
    void jump(B to) const { LLVMBuildBr(at, to); }
    void fork(V condition, B then, B otherwise) const { LLVMBuildCondBr(at, condition, then, otherwise); }
    V merge(std::initializer_list<std::pair<V, B>> from) const {
        V phi = LLVMBuildPhi(at, LLVMTypeOf(from.begin()->first), "");
        for (auto [value, block] : from) LLVMAddIncoming(phi, &value, &block, 1);
        return phi;
    }
};

}  // namespace barcuda::soft::compiler
