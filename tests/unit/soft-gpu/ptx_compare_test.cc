// SPDX-License-Identifier: Apache-2.0
// ptx_compare_test.cc: every relation of every kind of number, combined with predicates.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

const std::string select = " selp.u32 d, 1, 0, p;";
template <class T> void relations(const std::string& type) {
    expect<u32, T, T>("setp.eq." + type + " p, a, b;" + select, [](T a, T b) { return a == b; });
    expect<u32, T, T>("setp.ne." + type + " p, a, b;" + select, [](T a, T b) { return a < b || a > b; });
    expect<u32, T, T>("setp.lt." + type + " p, a, b;" + select, [](T a, T b) { return a < b; });
    expect<u32, T, T>("setp.le." + type + " p, a, b;" + select, [](T a, T b) { return a <= b; });
    expect<u32, T, T>("setp.gt." + type + " p, a, b;" + select, [](T a, T b) { return a > b; });
    expect<u32, T, T>("setp.ge." + type + " p, a, b;" + select, [](T a, T b) { return a >= b; });
}
template <class T> void unordered(const std::string& type) {
    const auto nan = [](T a, T b) { return a != a || b != b; };
    expect<u32, T, T>("setp.equ." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a == b; });
    expect<u32, T, T>("setp.neu." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a != b; });
    expect<u32, T, T>("setp.ltu." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a < b; });
    expect<u32, T, T>("setp.leu." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a <= b; });
    expect<u32, T, T>("setp.gtu." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a > b; });
    expect<u32, T, T>("setp.geu." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b) || a >= b; });
    expect<u32, T, T>("setp.num." + type + " p, a, b;" + select, [=](T a, T b) { return !nan(a, b); });
    expect<u32, T, T>("setp.nan." + type + " p, a, b;" + select, [=](T a, T b) { return nan(a, b); });
}

TEST(PtxCompare, IntegersOfEveryWidth) {
    relations<u16>("u16");
    relations<s16>("s16");
    relations<u32>("u32");
    relations<s32>("s32");
    relations<u64>("u64");
    relations<s64>("s64");
}
TEST(PtxCompare, FloatingNumbersOrdered) {
    relations<float>("f32");
    relations<double>("f64");
}
TEST(PtxCompare, FloatingNumbersUnordered) {
    unordered<float>("f32");
    unordered<double>("f64");
}

TEST(PtxCompare, ASecondPredicateIsTheComplementBeforeCombining) {
    expect<u32, s32, s32>("setp.lt.s32 p|q, a, b; selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; add.u32 d, x, y;",
                          [](s32 a, s32 b) { return a < b ? 1u : 2u; });
    expect<u32, s32, s32, s32>(
        "setp.gt.s32 q, c, 0; setp.lt.and.s32 p|q, a, b, q; selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; add.u32 d, x, y;",
        [](s32 a, s32 b, s32 c) { return (a < b && c > 0 ? 1u : 0u) + (!(a < b) && c > 0 ? 2u : 0u); });
    expect<u32, s32, s32, s32>("setp.gt.s32 q, c, 0; setp.lt.xor.s32 p, a, b, !q; selp.u32 d, 1, 0, p;",
                               [](s32 a, s32 b, s32 c) { return (a < b) != !(c > 0); });
}

TEST(PtxCompare, SetWritesAllOnesOrOne) {
    expect<u32, s32, s32>("set.lt.u32.s32 d, a, b;", [](s32 a, s32 b) { return a < b ? ~0u : 0u; });
    expect<float, u32, u32>("set.gt.f32.u32 d, a, b;", [](u32 a, u32 b) { return a > b ? 1.0f : 0.0f; });
    expect<u32, float, float>("set.eq.u32.f32 d, a, b;", [](float a, float b) { return a == b ? ~0u : 0u; });
}

TEST(PtxCompare, SlctSelectsByTheSign) {
    expect<u32, u32, u32, s32>("slct.u32.s32 d, a, b, c;", [](u32 a, u32 b, s32 c) { return c >= 0 ? a : b; });
    expect<u64, u64, u64, float>("slct.b64.f32 d, a, b, c;", [](u64 a, u64 b, float c) { return c >= 0 ? a : b; });
}

TEST(PtxCompare, PredicateLogic) {
    expect<u32, s32, s32>(
        "setp.gt.s32 p, a, 0; setp.gt.s32 q, b, 0; and.pred p, p, q; not.pred p, p; selp.u32 d, 1, 0, p;",
        [](s32 a, s32 b) { return !(a > 0 && b > 0); });
    expect<u32, s32, s32>("setp.gt.s32 p, a, 0; setp.gt.s32 q, b, 0; xor.pred p, p, q; selp.u32 d, 1, 0, !p;",
                          [](s32 a, s32 b) { return (a > 0) == (b > 0); });
}

}  // namespace
