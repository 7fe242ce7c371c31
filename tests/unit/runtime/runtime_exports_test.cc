// SPDX-License-Identifier: Apache-2.0
// The library exports every name that NVIDIA's libcuda.so.1, libcudart.so.13, libcublas.so.13 and libcurand.so.10
// export: a program that imports one that is missing does not load, whether it would ever call it or not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "shm-device/cuda/api.h"
#include "tests/unit/support/exports.h"

namespace {

using barcuda::test::exports_of;
using barcuda::test::toolkit;

// The test stands in BUILD/tests, the library in BUILD/lib.
std::filesystem::path ours() {
    if (const char* path = std::getenv("BARCUDA_LIBRARY")) return path;
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/libbarcuda.so";
}

std::filesystem::path ours(const char* library) { return ours().parent_path() / "barcuda-libraries" / library; }

TEST(RuntimeExports, NameEveryFunctionOfTheRealLibrary) {
    auto real = exports_of(toolkit("lib64/libcudart.so.13")), mine = exports_of(ours());
    if (real.empty()) GTEST_SKIP() << toolkit("lib64/libcudart.so.13") << " is not there";
    if (mine.empty()) GTEST_SKIP() << ours() << " is not built";
    for (const std::string& name : real) EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

// Except for those whose addresses and sizes have 32 bits: a later form is wide.
TEST(RuntimeExports, NameEverySymbolOfTheDriver) {
    auto mine = exports_of(ours());
    if (mine.empty()) GTEST_SKIP() << ours() << " is not built";
    std::set<std::string> narrow;
    for (const barcuda::ApiSymbol& s : barcuda::api_symbols)
        if (s.form == barcuda::Form::wide) narrow.insert(s.name);
    for (const auto& [symbol, name, since, twin, form] : barcuda::api_symbols) {
        if (narrow.count(symbol)) continue;
        EXPECT_TRUE(mine.count(symbol)) << symbol << " is missing";
        if (twin == barcuda::Twin::none) continue;
        const std::string other = std::string(symbol) + (twin == barcuda::Twin::ptds ? "_ptds" : "_ptsz");
        EXPECT_TRUE(mine.count(other)) << other << " is missing";
    }
}

TEST(RuntimeExports, NameEveryFunctionOfCuRand) {
    auto real = exports_of(toolkit("lib64/libcurand.so.10")), mine = exports_of(ours("libcurand.so.10"));
    if (real.empty()) GTEST_SKIP() << toolkit("lib64/libcurand.so.10") << " is not there";
    if (mine.empty()) GTEST_SKIP() << ours("libcurand.so.10") << " is not built";
    for (const std::string& name : real) EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

TEST(RuntimeExports, NameEveryFunctionOfCuBlasThatItsHeadersDeclare) {
    auto real = exports_of(toolkit("lib64/libcublas.so.13")), mine = exports_of(ours("libcublas.so.13"));
    if (real.empty()) GTEST_SKIP() << toolkit("lib64/libcublas.so.13") << " is not there";
    if (mine.empty()) GTEST_SKIP() << ours("libcublas.so.13") << " is not built";
    for (const char* secret :
         {"cublasCbdmm", "cublasDbdmm", "cublasSbdmm", "cublasZbdmm", "cublasGetBackdoor", "cublasSetBackdoor",
          "cublasSetBackdoorEx", "cublasGetEnvironmentMode", "cublasSetEnvironmentMode"})
        real.erase(secret);  // no program can call them
    for (const std::string& name : real) EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

TEST(RuntimeExports, NameTheFunctionsThatOldProgramsStillCall) {
    auto mine = exports_of(ours());
    if (mine.empty()) GTEST_SKIP() << ours() << " is not built";
    for (const char* name : {"cudaConfigureCall", "cudaSetupArgument", "cudaLaunch", "cudaThreadSynchronize",
                             "cudaThreadExit", "cudaBindTexture", "cudaMemcpyToArray"})
        EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

TEST(RuntimeExports, KeepEverythingElseInside) {
    auto mine = exports_of(ours());
    if (mine.empty()) GTEST_SKIP() << ours() << " is not built";
    for (const std::string& name : mine) EXPECT_EQ(std::string::npos, name.find("barcuda7runtime")) << name;
}

}  // namespace
