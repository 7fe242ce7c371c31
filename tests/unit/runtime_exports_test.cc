// The library exports every name that NVIDIA's libcudart.so.13, libcublas.so.13 and libcurand.so.10 export: a program
// that imports one that is missing does not load, whether it would ever call it or not.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace {

// The functions that a shared library defines, from its dynamic symbol table; empty if there is no such file.
std::set<std::string> exports_of(const std::filesystem::path& path) {
    std::set<std::string> names;
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < sizeof(Elf64_Ehdr)) return names;
    auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
    auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes.data() + sections[i].sh_offset);
        const char* text = bytes.data() + sections[sections[i].sh_link].sh_offset;
        for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); s++)
            if (symbols[s].st_shndx != SHN_UNDEF &&
                (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC || ELF64_ST_TYPE(symbols[s].st_info) == STT_GNU_IFUNC))
                names.insert(text + symbols[s].st_name);
    }
    return names;
}

std::filesystem::path toolkit(const char* library) {
    const char* home = std::getenv("CUDA_HOME");
    return std::filesystem::path(home ? home : "/usr/local/cuda") / "lib64" / library;
}

// The test stands in BUILD/tests, the library in BUILD/lib.
std::filesystem::path ours() {
    if (const char* path = std::getenv("BARCUDA_LIBRARY")) return path;
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/libbarcuda.so";
}

std::filesystem::path ours(const char* library) { return ours().parent_path() / "barcuda-libraries" / library; }

}  // namespace

TEST(RuntimeExports, NameEveryFunctionOfTheRealLibrary) {
    auto real = exports_of(toolkit("libcudart.so.13")), mine = exports_of(ours());
    if (real.empty()) GTEST_SKIP() << toolkit("libcudart.so.13") << " is not there";
    if (mine.empty()) GTEST_SKIP() << ours() << " is not built";
    for (const std::string& name : real) EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

TEST(RuntimeExports, NameEveryFunctionOfCuRand) {
    auto real = exports_of(toolkit("libcurand.so.10")), mine = exports_of(ours("libcurand.so.10"));
    if (real.empty()) GTEST_SKIP() << toolkit("libcurand.so.10") << " is not there";
    if (mine.empty()) GTEST_SKIP() << ours("libcurand.so.10") << " is not built";
    for (const std::string& name : real) EXPECT_TRUE(mine.count(name)) << name << " is missing";
}

TEST(RuntimeExports, NameEveryFunctionOfCuBlasThatItsHeadersDeclare) {
    auto real = exports_of(toolkit("libcublas.so.13")), mine = exports_of(ours("libcublas.so.13"));
    if (real.empty()) GTEST_SKIP() << toolkit("libcublas.so.13") << " is not there";
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
