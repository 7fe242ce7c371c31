// module.h: what a launch needs to know about a function.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda {

struct FunctionFacts {
    std::uint32_t parameter_count;
    std::uint32_t parameter_bytes;  // offset + size of the last one
    int max_threads_per_block;

    struct Parameter {
        std::uint16_t offset, size;
    };  // bytes, in the parameter buffer
    Parameter* parameters() { return reinterpret_cast<Parameter*>(this + 1); }
    const Parameter* parameters() const { return reinterpret_cast<const Parameter*>(this + 1); }
};

// Null: `error` says why. The first question about a function goes to the worker.
const FunctionFacts* facts(CUfunction function, CUresult& error) noexcept;

// The file, ended by a NUL behind its `size` bytes; to be freed. Null: it cannot be read.
char* read_file(const char* path, std::size_t& size) noexcept;
void answer_options(unsigned count, CUjit_option* options, void** values) noexcept;

}  // namespace barcuda
