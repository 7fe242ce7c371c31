// module.h: what a launch needs to know about a function.
#pragma once
#include <cuda.h>

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

}  // namespace barcuda
