// SPDX-License-Identifier: Apache-2.0
// link_calls.cc: cuLink*. PTX is linked by joining texts: the engine resolves what one text declares and another
// defines, and refuses a name that is defined twice. The resulting "cubin" is PTX text.
#include <array>
#include <cstring>
#include <sstream>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/function.h"
#include "soft-gpu/image.h"

namespace barcuda::soft::driver {

struct Linker {
    Linker(unsigned count, CUjit_option* options, void** values) : log(count, options, values) {}
    JitLog log;
    std::string text;
    bool complete = false;
};

namespace {

// The directives that open a PTX file may occur only once.
std::string without_opening(const std::string& text) {
    std::istringstream lines(text);
    std::string rest;
    for (std::string line; std::getline(lines, line);) {
        const auto first = line.find_first_not_of(" \t\r");
        const auto opens = [&](const char* directive) {
            return first != line.npos && line.compare(first, std::string(directive).size(), directive) == 0;
        };
        // keeps the numbers of lines
        if (opens(".version") || opens(".target") || opens(".address_size")) line.clear();
        rest += line + '\n';
    }
    return rest;
}

// What NVIDIA's driver (580) says of input that is not of its type; of what is, that it is no code for this device.
CUresult refusal(CUjitInputType type, std::span<const std::byte> bytes) {
    constexpr std::array elf{'\x7f', 'E', 'L', 'F'}, archive{'!', '<', 'a', 'r'};
    const auto opens = [&](const std::array<char, 4>& with) {
        return bytes.size() >= with.size() && std::memcmp(bytes.data(), with.data(), with.size()) == 0;
    };
    switch (type) {
        case CU_JIT_INPUT_CUBIN: return opens(elf) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
        case CU_JIT_INPUT_OBJECT: return opens(elf) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_UNKNOWN;
        case CU_JIT_INPUT_LIBRARY: return opens(archive) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_UNKNOWN;
        default: return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    }
}

void add(Linker& linker, CUjitInputType type, std::span<const std::byte> bytes, const char* name) {
    require(!linker.complete);
    const std::string what = name && *name ? name : "an input";
    try {
        require(type >= 0 && type < CU_JIT_NUM_INPUT_TYPES);
        if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
            fail(refusal(type, bytes),
                 "linking " + what +
                     ": only PTX and fat binaries with PTX can be linked (not machine code, objects or libraries)");
        const std::string ptx = ptx_of_bytes(bytes, Driver::get().settings.compute_capability());
        linker.text += linker.text.empty() ? ptx + '\n' : without_opening(ptx);
    } catch (const Error& error) {
        linker.log.error(error.message);
        throw;
    }
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues, CUlinkState* stateOut) {
    return api([&] {
        require(stateOut && (numOptions == 0 || (options && optionValues)));
        current_context();
        *stateOut = Driver::get().linkers.add(std::make_shared<Linker>(numOptions, options, optionValues));
    });
}
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int, CUjit_option*, void**) {
    return api([&] {
        require(data && size != 0);
        add(*Driver::get().linkers.find(state), type, {static_cast<const std::byte*>(data), size}, name);
    });
}
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int, CUjit_option*,
                          void**) {
    return api([&] {
        const auto linker = Driver::get().linkers.find(state);
        const std::string bytes = read_file(path);
        add(*linker, type, std::as_bytes(std::span(bytes)), path);
    });
}
CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
    return api([&] {
        require(cubinOut);
        const auto linker = Driver::get().linkers.find(state);
        require(!linker->complete);
        if (!linker->text.empty()) try {  // what cannot be loaded is reported now, as by a linker
                barcuda::soft::Limits limits;
                limits.compute_capability = Driver::get().settings.compute_capability();
                linker->log.needs(*barcuda::soft::Program::load(linker->text, limits, Driver::get().space));
            } catch (const barcuda::soft::Error& error) {
                linker->log.error(error.message);
                throw;
            }
        linker->complete = true;
        *cubinOut = linker->text.data();
        if (sizeOut) *sizeOut = linker->text.size() + 1;
    });
}
CUresult cuLinkDestroy(CUlinkState state) {
    return api([&] { Driver::get().linkers.take(state); });
}
