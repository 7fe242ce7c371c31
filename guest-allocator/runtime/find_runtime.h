// SPDX-License-Identifier: Apache-2.0
// find_runtime.h: where the public functions of a CUDA runtime are that was linked into a file, or is the file. The
// file's symbol tables say so; a stripped file is compared with the archives that such runtimes come from
// (runtime_shapes.py).
#pragma once
#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace barcuda::runtime {

// What a function of a static runtime looks like: its bytes, except those that a linker fills in.
struct Hole {
    std::uint16_t begin, end;  // {0, 0} ends a list
};
struct CodeShape {
    std::string_view name;
    std::uint32_t offset;     // in its object: one runtime's functions mostly keep their distances
    std::uint16_t bytes;      // of code
    std::uint64_t hash;       // FNV-1a of them, holes as zeros
    std::uint16_t anchor_at;  // where some of them are
    std::string_view anchor;
    const Hole* holes;
};
extern const std::span<const std::span<const CodeShape>> known_runtimes;  // by offset; an empty one ends the list

// A file, for reading.
class ProgramFile {
  public:
    explicit ProgramFile(const char* path);
    ~ProgramFile();
    ProgramFile(const ProgramFile&) = delete;
    std::span<const char> bytes() const { return {data_, bytes_}; }
    // What of it is mapped to be executed: empty, if it is no ELF file.
    std::span<const Elf64_Phdr> segments() const;

  private:
    const char* data_ = nullptr;
    std::size_t bytes_ = 0;
};

struct RuntimeFunction {
    std::string_view name;   // the file's, or a shape's
    std::uintptr_t address;  // in the file's terms
    std::size_t room;        // bytes until the next one
};

// Empty: none. All of them, or nearly (a linker may have left some out), or none: a runtime is one object.
std::vector<RuntimeFunction> find_runtime(const ProgramFile& file);

// The same, from files that have no symbols.
std::vector<RuntimeFunction> find_shapes(const ProgramFile& file,
                                         std::span<const std::span<const CodeShape>> runtimes = known_runtimes);

}  // namespace barcuda::runtime
