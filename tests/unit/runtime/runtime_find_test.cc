// SPDX-License-Identifier: Apache-2.0
// Where the functions of a CUDA runtime are in a file: by its symbols, by what they look like, and in no file that
// lies.
#include "guest-allocator/runtime/find_runtime.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace barcuda::runtime;

// A file of these bytes.
class Made {
  public:
    explicit Made(const std::string& bytes) : fd_(memfd_create("made", MFD_CLOEXEC)) {
        EXPECT_EQ(write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }
    ~Made() { close(fd_); }
    Made(const Made&) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

// An ELF file with code, the strings of a file that opens the driver, and, if `names`, symbols. With `imports` it has a
// dynamic symbol table, too, with these and, if `exports`, its functions.
struct Fake {
    std::vector<std::pair<std::string, std::string>> functions;  // names, code; each begins at a multiple of 16
    bool names = true;
    std::vector<std::string> imports;
    bool exports = false, hashes_none = false;
    std::size_t before = 0;  // bytes of other code
    static constexpr std::size_t code_at = 4096;

    std::size_t place(std::size_t i) const {
        std::size_t at = before;
        for (std::size_t k = 0; k < i; ++k) at += (functions[k].second.size() + 15) / 16 * 16;
        return at;
    }
    template <class T> static std::string as_bytes(const std::vector<T>& all) {
        return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)};
    }
    // With two buckets: what is imported comes first, then the exports by their buckets.
    template <class Add>
    void add_dynamic(const Add& add, const std::vector<Elf64_Sym>& symbols, const std::string& text) const {
        std::string strings = text;
        std::vector<Elf64_Sym> all(1);
        for (const std::string& name : imports) {
            all.emplace_back().st_name = static_cast<unsigned>(strings.size());
            strings += name + '\0';
        }
        const auto first = static_cast<std::uint32_t>(all.size());
        std::vector<std::uint32_t> table{2, first, 1, 0, ~0u, ~0u}, buckets, chains;  // the filter lets all through
        for (std::uint32_t bucket = 0; bucket < 2; ++bucket) {
            const std::size_t before = chains.size();
            for (std::size_t i = 1; i < symbols.size() && exports; ++i) {
                std::uint32_t hash = 5381;
                for (const char* c = &text[symbols[i].st_name]; *c; ++c)
                    hash = hash * 33 + static_cast<unsigned char>(*c);
                if (hash % 2 == bucket) {
                    all.push_back(symbols[i]);
                    chains.push_back(hash & ~1u);
                }
            }
            buckets.push_back(before == chains.size() ? 0 : static_cast<std::uint32_t>(first + before));
            if (before != chains.size()) chains.back() |= 1;
        }
        if (hashes_none) table[1] = 1;  // as GNU ld writes it for an executable without exports
        table.insert(table.end(), buckets.begin(), buckets.end());
        table.insert(table.end(), chains.begin(), chains.end());
        const unsigned link = names ? 6 : 5;
        add(23, SHT_STRTAB, strings);
        add(49, SHT_DYNSYM, as_bytes(all)).sh_link = link;
        add(57, SHT_GNU_HASH, as_bytes(table));
    }
    std::string bytes() const {
        std::string code, text(1, '\0');
        std::vector<Elf64_Sym> symbols(1);
        for (std::size_t i = 0; i < functions.size(); ++i) {
            code.resize(place(i), '\x90');
            code += functions[i].second;
            Elf64_Sym s{};
            s.st_name = static_cast<unsigned>(text.size());
            s.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
            s.st_shndx = 1;
            s.st_value = 0x10000 + place(i);
            symbols.push_back(s);
            text += functions[i].first + '\0';
        }
        std::string all(code_at, '\0');
        std::vector<Elf64_Shdr> sections(1);
        const std::string section_names =
            std::string("\0.text\0.dynstr\0.rodata\0.strtab\0.symtab\0.shstrtab\0.dynsym\0.gnu.hash\0", 68);
        const auto add = [&](unsigned name, unsigned type, const std::string& content) -> Elf64_Shdr& {
            all.resize((all.size() + 15) / 16 * 16);
            Elf64_Shdr s{};
            s.sh_name = name;
            s.sh_type = type;
            s.sh_offset = all.size();
            s.sh_size = content.size();
            all += content;
            return sections.emplace_back(s);
        };
        Elf64_Shdr& c = add(1, SHT_PROGBITS, code);
        c.sh_flags = SHF_EXECINSTR;
        c.sh_addr = 0x10000;
        add(7, SHT_STRTAB, std::string("\0dlopen\0", 8));
        add(15, SHT_PROGBITS, std::string("libcuda.so.1\0", 13));
        add(23, SHT_STRTAB, text);
        if (names)
            add(31, SHT_SYMTAB, {reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof(Elf64_Sym)})
                .sh_link = 4;
        if (!imports.empty()) add_dynamic(add, symbols, text);
        add(39, SHT_STRTAB, section_names);
        all.resize((all.size() + 15) / 16 * 16);
        Elf64_Ehdr h{};
        memcpy(h.e_ident, ELFMAG, SELFMAG);
        h.e_shoff = all.size();
        h.e_shentsize = sizeof(Elf64_Shdr);
        h.e_shnum = static_cast<unsigned short>(sections.size());
        h.e_shstrndx = static_cast<unsigned short>(sections.size() - 1);
        memcpy(all.data(), &h, sizeof h);
        return all + std::string(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
    }
};

std::string code(unsigned seed, std::size_t bytes) {
    std::mt19937 random(seed);
    std::string text(bytes, 0);
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

// A runtime of 30 functions, of which the fourth has a hole that linkers fill in, and the second is too small to tell.
struct Runtime {
    Fake file;
    std::vector<CodeShape> shapes;
    std::vector<Hole> hole{{40, 44}, {0, 0}}, none{{0, 0}};
    Runtime() {
        file.functions.reserve(40);  // shapes have views of what is in it
        for (unsigned i = 0; i < 30; ++i) {
            const std::string name = i == 0   ? "__cudaRegisterFatBinary"
                                     : i == 1 ? "cudaMalloc"
                                              : "cudaFunction" + std::to_string(i);
            file.functions.emplace_back(name, code(i, i == 1 ? 10 : 300));
        }
        for (unsigned i = 0; i < 30; ++i) {
            auto& [name, bytes] = file.functions[i];
            CodeShape s{name,
                        static_cast<std::uint32_t>(file.place(i)),
                        static_cast<std::uint16_t>(bytes.size()),
                        0xcbf29ce484222325,
                        static_cast<std::uint16_t>(i == 1 ? 0 : 100),
                        std::string_view(bytes).substr(i == 1 ? 0 : 100, 10),
                        i == 3 ? hole.data() : none.data()};
            for (std::size_t b = 0; b < bytes.size(); ++b)
                s.hash =
                    (s.hash ^ (i == 3 && b >= 40 && b < 44 ? 0 : static_cast<unsigned char>(bytes[b]))) * 0x100000001b3;
            shapes.push_back(s);
        }
    }
    std::vector<RuntimeFunction> find() const {
        const Made made(file.bytes());
        const std::span<const CodeShape> all[] = {shapes};
        return find_shapes(ProgramFile(made.path().c_str()), all);
    }
};

TEST(FindRuntime, ByTheSymbolsOfTheFile) {
    const Runtime runtime;
    const Made made(runtime.file.bytes());
    const ProgramFile file(made.path().c_str());
    const auto functions = find_runtime(file);
    ASSERT_EQ(functions.size(), 30u);
    EXPECT_EQ(functions[1].name, "cudaMalloc");
    EXPECT_EQ(functions[1].address, 0x10000 + runtime.file.place(1));
    EXPECT_EQ(functions[1].room, 16u);
}

TEST(FindRuntime, ByItsShapeWhereThereAreNone) {
    Runtime runtime;
    runtime.file.names = false;
    auto functions = runtime.find();
    ASSERT_EQ(functions.size(), 30u);
    for (unsigned i = 0; i < 30; ++i) EXPECT_EQ(functions[i].address, 0x10000 + runtime.file.place(i)) << i;
    runtime.file.functions[3].second.replace(40, 4, "link");  // what a linker fills in
    EXPECT_EQ(runtime.find().size(), 30u);
    runtime.file.functions.insert(runtime.file.functions.begin() + 20, {"other", code(99, 5000)});  // in two pieces
    functions = runtime.find();
    ASSERT_EQ(functions.size(), 30u);
    EXPECT_EQ(functions[25].address, 0x10000 + runtime.file.place(26));
}

TEST(FindRuntime, ByItsShapeAtTheEndOfMuchOtherCode) {
    Runtime runtime;
    runtime.file.names = false;
    runtime.file.before = 9 << 20;
    const auto functions = runtime.find();
    ASSERT_EQ(functions.size(), 30u);
    for (unsigned i = 0; i < 30; ++i) EXPECT_EQ(functions[i].address, 0x10000 + runtime.file.place(i)) << i;
}

TEST(FindRuntime, NothingWhereMuchOfItIsDifferent) {
    Runtime runtime;
    runtime.file.names = false;
    runtime.file.functions[10].second[5] ^= 1;  // one of another version: the rest may be the same
    EXPECT_EQ(runtime.find().size(), 29u);
    for (unsigned i = 11; i < 20; ++i) runtime.file.functions[i].second[5] ^= 1;
    EXPECT_TRUE(runtime.find().empty());
}

TEST(FindRuntime, NothingWhereItStandsTwice) {
    Runtime runtime;
    runtime.file.names = false;
    const auto once = runtime.file.functions;
    runtime.file.functions.insert(runtime.file.functions.end(), once.begin(), once.end());
    EXPECT_TRUE(runtime.find().empty());
}

// What is far from the end of the code, where linkers put archives, is looked for in a file alone that opens the
// driver.
TEST(FindRuntime, FarFromTheEndOnlyInAFileThatOpensTheDriver) {
    Runtime runtime;
    runtime.file.names = false;
    runtime.file.functions.emplace_back("behind", std::string(5 << 20, '\x90'));
    const auto functions = runtime.find();
    ASSERT_EQ(functions.size(), 30u);
    EXPECT_EQ(functions[1].address, 0x10000 + runtime.file.place(1));
    std::string bytes = runtime.file.bytes();
    bytes[bytes.find("libcuda.so.1")] = 'L';
    const Made made(bytes);
    const std::span<const CodeShape> all[] = {runtime.shapes};
    EXPECT_TRUE(find_shapes(ProgramFile(made.path().c_str()), all).empty());
}

TEST(FindRuntime, ByWhatTheFileExports) {
    Runtime runtime;
    runtime.file.names = false;
    runtime.file.imports = {"dlopen"};
    runtime.file.exports = true;
    const Made made(runtime.file.bytes());
    const ProgramFile file(made.path().c_str());
    EXPECT_EQ(find_runtime(file).size(), 30u);
    runtime.file.functions[0].first = "__cudaRegisterFatBinarx";
    const Made other(runtime.file.bytes());
    EXPECT_TRUE(find_runtime(ProgramFile(other.path().c_str())).empty());
}

// What the file imports decides, not a name somewhere in its strings.
TEST(FindRuntime, NothingWhereTheFileImportsNoDlopenOrTheRuntimeItself) {
    Runtime runtime;
    runtime.file.names = false;
    runtime.file.imports = {"malloc", "dlopen"};
    EXPECT_EQ(runtime.find().size(), 30u);
    runtime.file.hashes_none = true;
    EXPECT_EQ(runtime.find().size(), 30u);
    runtime.file.imports = {"malloc", "dlopen_of_its_own"};
    EXPECT_TRUE(runtime.find().empty());
    runtime.file.imports = {"dlopen", "__cudaRegisterFatBinary"};
    EXPECT_TRUE(runtime.find().empty());
}

TEST(FindRuntime, NothingInWhatIsNoFile) {
    EXPECT_TRUE(find_runtime(ProgramFile("/nonexistent")).empty());
    EXPECT_TRUE(find_runtime(ProgramFile("/")).empty());
    EXPECT_TRUE(find_runtime(ProgramFile("/bin/sh")).empty());  // a program without
    for (const std::string& bytes :
         {std::string(), std::string(ELFMAG), std::string(70, 'x'), std::string(ELFMAG) + std::string(60, '\xff')})
        EXPECT_TRUE(find_runtime(ProgramFile(Made(bytes).path().c_str())).empty());
}

TEST(FindRuntime, ReadsNothingOutsideAFileThatLies) {
    Runtime runtime;
    const std::string without = runtime.file.bytes();
    runtime.file.imports = {"malloc", "dlopen"};
    runtime.file.exports = true;
    const std::string with = runtime.file.bytes();
    const std::span<const CodeShape> all[] = {runtime.shapes};
    std::mt19937 random(1);
    for (int i = 0; i < 6000; ++i) {
        const std::string& good = i % 2 ? with : without;
        std::string bytes = good;
        // Somewhere in the header or the tables, whose fields are sizes, offsets and indices; or in the table of
        // exports, before these.
        const std::size_t tables = bytes.size() - (i % 2 ? 10 * sizeof(Elf64_Shdr) + 300 : 7 * sizeof(Elf64_Shdr));
        const std::size_t at =
            random() % 2 ? random() % sizeof(Elf64_Ehdr) : tables + random() % (bytes.size() - tables - 8);
        const std::uint64_t values[] = {
            0, 1, random(), ~std::uint64_t{0}, good.size(), ~std::uint64_t{0} - 100, std::uint64_t{random()} << 32};
        memcpy(&bytes[std::min(at, bytes.size() - 8)], &values[random() % std::size(values)], 1 + random() % 8);
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        const Made made(bytes);
        const ProgramFile file(made.path().c_str());
        (void)find_runtime(file);
        for (const RuntimeFunction& f : find_shapes(file, all)) EXPECT_LE(f.room, 320u);
    }
}

}  // namespace
