// SPDX-License-Identifier: Apache-2.0
// approximations.cc: 2^x and log2(x) as ptx/math.h computes them, step by step: the same bits.
#include <cmath>
#include <cstdint>
#include <limits>

#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

V Translator::exp2_of(V x) {
    T wide = ir_.of(ir_.real(8)), bits = ir_.of(ir_.integer(8));
    const auto number = [&](double value) { return ir_.reals(value, 8); };
    const auto plus = [&](V a, V b) { return LLVMBuildFAdd(ir_.at, a, b, ""); };
    const auto times = [&](V a, V b) { return LLVMBuildFMul(ir_.at, a, b, ""); };
    V y = LLVMBuildFPExt(ir_.at, x, wide, "");
    V low = ir_.choose(ir_.compare(LLVMRealUNO, x, x), y, number(-1000));
    V high = ir_.choose(ir_.compare(LLVMRealOLT, x, ir_.reals(1000, 4)), y, number(1000));
    y = ir_.choose(ir_.compare(LLVMRealOGT, x, ir_.reals(-1000, 4)), high, low);
    V shifted = plus(y, number(0x1.8p52));
    V f = times(LLVMBuildFSub(ir_.at, y, LLVMBuildFSub(ir_.at, shifted, number(0x1.8p52), ""), ""),
                number(0.693147180559945309417));
    V series = plus(number(1.0 / 5040), LLVMBuildFDiv(ir_.at, f, number(40320), ""));
    for (const double factor : {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0})
        series = plus(number(factor), times(f, series));
    V n = LLVMBuildShl(ir_.at, ir_.as(shifted, bits), ir_.all(52, 8), "");
    return LLVMBuildFPTrunc(ir_.at, ir_.as(ir_.add(ir_.as(series, bits), n), wide), ir_.of(ir_.real(4)), "");
}

V Translator::log2_of(V x) {
    constexpr std::uint64_t root = 0x3FE6A09E667F3BCD;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    T wide = ir_.of(ir_.real(8)), bits = ir_.of(ir_.integer(8));
    const auto number = [&](double value) { return ir_.reals(value, 8); };
    const auto plus = [&](V a, V b) { return LLVMBuildFAdd(ir_.at, a, b, ""); };
    const auto times = [&](V a, V b) { return LLVMBuildFMul(ir_.at, a, b, ""); };
    V above = ir_.minus(ir_.as(LLVMBuildFPExt(ir_.at, x, wide, ""), bits), ir_.all(root, 8));
    V m = ir_.as(ir_.add(ir_.both(above, ir_.all(0xFFFFFFFFFFFFF, 8)), ir_.all(root, 8)), wide);
    V exponent = LLVMBuildXor(ir_.at, LLVMBuildLShr(ir_.at, above, ir_.all(52, 8), ""), ir_.all(0x800, 8), "");
    V n = LLVMBuildFSub(ir_.at, ir_.as(ir_.either(exponent, ir_.all(0x4330000000000000, 8)), wide),
                        number(0x1p52 + 0x800), "");
    V s = LLVMBuildFDiv(ir_.at, LLVMBuildFSub(ir_.at, m, number(1), ""), plus(m, number(1)), ""), q = times(s, s);
    V series = number(2.0 / 13);
    for (const double factor : {2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0})
        series = plus(number(factor), times(q, series));
    V y = plus(n, times(times(s, series), number(1.44269504088896340736)));
    V zero = ir_.reals(0, 4);
    y = ir_.choose(ir_.compare(LLVMRealOLT, x, ir_.reals(infinity, 4)), y, number(infinity));
    V rest = ir_.choose(ir_.compare(LLVMRealOEQ, x, zero), number(-infinity),
                        number(std::numeric_limits<double>::quiet_NaN()));
    return LLVMBuildFPTrunc(ir_.at, ir_.choose(ir_.compare(LLVMRealOGT, x, zero), y, rest), ir_.of(ir_.real(4)), "");
}

}  // namespace barcuda::soft::compiler
