// SPDX-License-Identifier: Apache-2.0
// ptx_fuzz.cc: any bytes as PTX text: they load, or are refused with an Error; nothing else may happen. The kernels are
// not run: what they do to memory is theirs. Corpus: the tests' kernels and what nvcc writes (make one with `nvcc
// -ptx`).
#include <cstdint>

#include "soft-gpu/engine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace barcuda::soft;
    AddressSpace space;
    Limits limits;
    limits.compute_capability = 100;
    try {
        const auto program = Program::load({reinterpret_cast<const char*>(data), size}, limits, space);
        for (const auto& name : program->kernel_names()) program->kernel(name);
    } catch (const Error&) { return 0; }
    return 0;
}
