// SPDX-License-Identifier: Apache-2.0
// api_table_test: shm-device/cuda/api.h against what it is a table of: the toolkit's headers and NVIDIA's own
// libraries. The compiler compares the types: <cuda.h> declares each symbol, <cudaTypedefs.h> gives the type that each
// name has since each version. What the table might lack is found in the headers' text.
#define __CUDA_API_VERSION_INTERNAL  // every symbol, under its own name
#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>

#include "shm-device/cuda/api.h"
#include "tests/unit/support/exports.h"

namespace barcuda::test {
namespace {

// <cuda.h> renames it (#define cuGraphInstantiate cuGraphInstantiateWithFlags) since CUDA 12; the other header is
// silent.
using PFN_cuGraphInstantiate_v12000 = PFN_cuGraphInstantiateWithFlags_v11040;

template <Form form, class Symbol, class First> constexpr bool is_form =
    form == Form::same ? std::is_same_v<Symbol, First> : !std::is_same_v<Symbol, First>;

#define TWIN_none(symbol)
#define TWIN_ptds(symbol) static_assert(std::is_same_v<decltype(symbol), decltype(symbol##_ptds)>);
#define TWIN_ptsz(symbol) static_assert(std::is_same_v<decltype(symbol), decltype(symbol##_ptsz)>);
#define FIRST(name, since, twin)                                           \
    static_assert(std::is_same_v<decltype(&name), PFN_##name##_v##since>); \
    TWIN_##twin(name)
#define LATER(symbol, name, since, twin, form)                               \
    static_assert(std::is_same_v<decltype(&symbol), PFN_##name##_v##since>); \
    static_assert(is_form<Form::form, decltype(symbol), decltype(name)>);    \
    TWIN_##twin(symbol)
BARCUDA_API(FIRST, LATER)
#undef FIRST
#undef LATER

const char* suffix(Twin twin) { return twin == Twin::ptds ? "_ptds" : twin == Twin::ptsz ? "_ptsz" : ""; }

std::set<std::string> symbols_and_twins() {
    std::set<std::string> names;
    for (const ApiSymbol& s : api_symbols) names.insert({s.symbol, std::string(s.symbol) + suffix(s.twin)});
    return names;
}

std::string text_of(const char* header) {
    std::ifstream in(toolkit("include") / header);
    return {std::istreambuf_iterator<char>(in), {}};
}

template <class Use> void each_match(const std::string& text, const char* pattern, const Use& use) {
    const std::regex regex(pattern);
    for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) use(*i);
}

// The types of <cudaTypedefs.h>: PFN_cuMemcpy_v4000, PFN_cuMemcpy_v7000_ptds.
struct Typedef {
    std::string name;
    int since;
    std::string twin;
};
std::vector<Typedef> typedefs() {
    std::vector<Typedef> all;
    for (const char* header :
         {"cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h"})
        each_match(text_of(header), R"(\*PFN_(cu(?!WGL)\w+?)_v(\d+)(_pts[zd]|_ptds)?\))", [&](const std::smatch& m) {
            all.push_back({m[1], std::stoi(m[2]), m[3]});
        });
    return all;
}

// Names that came after the version that the table knows: a newer toolkit has them.
std::set<std::string> newer_names() {
    std::map<std::string, int> oldest;
    for (const auto& [name, since, twin] : typedefs()) {
        const int before = oldest.emplace(name, since).first->second;
        oldest[name] = std::min(before, since);
    }
    std::set<std::string> names;
    for (const auto& [name, since] : oldest)
        if (since > api_version) names.insert(name);
    return names;
}
std::string without_version(std::string symbol) {
    return std::regex_replace(symbol, std::regex("(_v\\d)?(_ptsz|_ptds)?$"), "",
                              std::regex_constants::format_first_only);
}

TEST(ApiTable, KeepsTheSymbolsOfANameTogetherTheOldestFirst) {
    std::set<std::string> seen;
    const ApiSymbol* before = nullptr;
    for (const ApiSymbol& s : api_symbols) {
        if (before && std::string(before->name) == s.name) {
            EXPECT_LT(before->since, s.since) << s.symbol;
            EXPECT_NE(s.form, Form::first) << s.symbol;
        } else {
            EXPECT_TRUE(seen.insert(s.name).second) << s.name << " stands in two places";
            EXPECT_EQ(s.form, Form::first) << s.symbol;
        }
        EXPECT_LE(s.since, api_version) << s.symbol;
        before = &s;
    }
}

TEST(ApiTable, CallsWideWhatHad32BitsBeforeCuda32) {
    std::set<std::string> narrow;
    for (const ApiSymbol& s : api_symbols) {
        if (s.form == Form::first && s.since < 3020) narrow.insert(s.name);
        const bool can_be_wide = narrow.count(s.name) && s.since >= 3020 && s.since <= 4010;
        EXPECT_TRUE(s.form != Form::wide || can_be_wide) << s.symbol;
        EXPECT_TRUE(s.form != Form::other || !can_be_wide) << s.symbol;
    }
}

TEST(ApiTable, HasEveryFunctionThatCudaHDeclares) {
    const auto known = symbols_and_twins(), newer = newer_names();
    unsigned count = 0;
    for (const char* header : {"cuda.h", "cudaProfiler.h"})
        each_match(text_of(header), R"(CUresult\s+(?:CUDAAPI\s+)?(cu[A-Z]\w*)\s*\()", [&](const std::smatch& m) {
            const std::string name = m[1];
            if (name == "cuGetProcAddress_v2_ptsz") return;  // an inline function
            count++;
            EXPECT_TRUE(known.contains(name) || newer.contains(without_version(name))) << name << " is missing";
        });
    EXPECT_GT(count, 500u);
}

// #define cuMemcpyHtoD __CUDA_API_PTDS(cuMemcpyHtoD_v2): its newest symbol, and the twin; #define cuMemcpy
// __CUDA_API_PTDS(cuMemcpy): only that the symbol has a twin.
TEST(ApiTable, MeansByEachNameWhatCudaHMakesOfIt) {
    std::map<std::string, const ApiSymbol*> newest, symbols;
    for (const ApiSymbol& s : api_symbols) newest[s.name] = symbols[s.symbol] = &s;
    std::map<std::string, int> changed;  // in which version a name got its newest type
    for (const auto& [name, since, twin] : typedefs()) changed[name] = std::max(changed[name], since);
    std::set<std::string> renamed, with_twin;
    each_match(text_of("cuda.h"), R"(#\s*define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*))",
               [&](const std::smatch& m) {
                   const std::string name = m[1], macro = m[2], symbol = m[3];
                   if (symbol == "cuGetProcAddress_v2_ptsz") return;  // an inline function
                   if (changed[without_version(name)] > api_version) return;
                   ASSERT_TRUE(symbols.contains(symbol)) << symbol;
                   const std::string twin = suffix(symbols[symbol]->twin);
                   EXPECT_EQ(twin, macro == "PTDS" ? "_ptds" : macro == "PTSZ" ? "_ptsz" : "") << symbol;
                   if (name == symbol) return;
                   renamed.insert(name);
                   EXPECT_EQ(newest[name]->symbol, symbol);
               });
    EXPECT_GT(renamed.size(), 80u);
}

TEST(ApiTable, KnowsSinceWhichVersionEachNameHasEachType) {
    std::set<std::tuple<std::string, int, std::string>> known;
    for (const ApiSymbol& s : api_symbols) {
        known.emplace(s.name, s.since, "");
        if (s.twin != Twin::none) known.emplace(s.name, std::max(s.since, 7000), suffix(s.twin));
    }
    const auto all = typedefs();
    EXPECT_GT(all.size(), 500u);
    for (const auto& [name, since, twin] : all)
        EXPECT_TRUE(known.contains({name, since, twin}) || since > api_version) << name << " " << since << twin;
}

// Exported by NVIDIA's library beside the table's symbols, each beginning for a reason.
struct {
    const char *begins, *reason;
} constexpr others[] = {
    {"cudbg", "a debugger's door"},
    {"cuMemGetAttribute", "of no header: a driver of 580 exports it"},
};

const std::set<std::string> graphics = {
#define FIRST(name, since, twin) #name,
#define LATER(symbol, name, since, twin, form) #symbol,
    BARCUDA_GRAPHICS_API(FIRST, LATER)
#undef FIRST
#undef LATER
};

// `all`: also the other way. A stub has none of the graphics.
void compare_with(const std::set<std::string>& exports, bool all, bool is_stub = false) {
    const auto known = symbols_and_twins();
    for (const std::string& name : exports) {
        if (!name.starts_with("cu")) continue;
        const bool other = std::any_of(std::begin(others), std::end(others),
                                       [&](const auto& o) { return name.starts_with(o.begins); });
        EXPECT_TRUE(known.contains(name) || other) << name << " is missing";
    }
    if (!all) return;
    const auto is_of_graphics = [](const std::string& name) {
        return graphics.contains(name) || graphics.contains(name.substr(0, name.rfind("_pt")));
    };
    for (const std::string& name : known)
        EXPECT_TRUE(exports.contains(name) || (is_stub && is_of_graphics(name))) << name << " is not exported";
}

TEST(ApiTable, HasWhatTheToolkitsDriverStubExportsAndNoMore) {
    const auto path = toolkit("lib64/stubs/libcuda.so");
    const auto exports = exports_of(path);
    if (exports.empty()) GTEST_SKIP() << "skipped: " << path << " is not there";
    if (CUDA_VERSION != api_version) GTEST_SKIP() << "skipped: the toolkit is of CUDA " << CUDA_VERSION;
    compare_with(exports, true, true);
}

TEST(ApiTable, HasWhatNvidiasDriverExports) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) GTEST_SKIP() << "skipped: no libcuda.so.1 here";
    if (dlsym(driver, "barcuda_guest_library") || dlsym(driver, "barcuda_soft_reaches"))
        GTEST_SKIP() << "skipped: libcuda.so.1 here is Barcuda's own";
    int version = 0;
    reinterpret_cast<decltype(&cuDriverGetVersion)>(dlsym(driver, "cuDriverGetVersion"))(&version);
    if (version > api_version) GTEST_SKIP() << "skipped: the driver is of CUDA " << version << ": newer than the table";
    link_map* map = nullptr;
    ASSERT_EQ(0, dlinfo(driver, RTLD_DI_LINKMAP, &map));
    compare_with(exports_of(map->l_name), version == api_version);
}

}  // namespace
}  // namespace barcuda::test
