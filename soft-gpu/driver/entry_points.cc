// SPDX-License-Identifier: Apache-2.0
// entry_points.cc: cuGetProcAddress, the twins for per-thread default streams and the plain names, all from the table
// of CUDA's names (shm-device/cuda/api.h). A function exists here if another file defines it: for each such function
// the build writes into soft_functions.h
//     #define SOFT_cuInit ~,
#include "soft_functions.h"

#include <cstring>
#include <iterator>

#include "soft-gpu/driver/api.h"  // before the table, so that cuda.h declares every name

#include "shm-device/cuda/api.h"
#include "shm-device/cuda/other_names.h"

namespace barcuda::soft::driver {
namespace {

// While this lives, stream 0 is the calling thread's own.
struct PerThreadDefault {
    const bool before = per_thread_default;
    PerThreadDefault() { per_thread_default = true; }
    ~PerThreadDefault() { per_thread_default = before; }
};

}  // namespace
}  // namespace barcuda::soft::driver

#define SOFT_cuGetProcAddress ~,
#define SOFT_cuGetProcAddress_v2 ~,

// THERE(symbol) is 1 or 0: the comma of SOFT_cuInit moves the 1 to the second place.
#define SECOND(a, b, ...) b
#define EXPANDED_SECOND(...) SECOND(__VA_ARGS__)
#define THERE(symbol) EXPANDED_SECOND(SOFT_##symbol 1, 0, )
#define JOINED(a, b) a##b
#define CHOSEN(a, b) JOINED(a, b)

#define TWIN_1(symbol, twin) BARCUDA_TWIN(symbol, twin, barcuda::soft::driver::PerThreadDefault)
#define TWIN_0(symbol, twin)
// The plain name of a function whose first version took the same arguments, or had 32-bit addresses and sizes: programs
// that look functions up by name mean the current version.
#define PLAIN(symbol, name) CHOSEN(PLAIN_, CHOSEN(THERE(symbol), THERE(name)))(symbol, name)
#define PLAIN_10(symbol, name) \
    BARCUDA_NAME(name, reinterpret_cast<decltype(&::name)>(reinterpret_cast<void*>(&::symbol)))
#define PLAIN_01(symbol, name)
#define PLAIN_11(symbol, name)
#define PLAIN_00(symbol, name)
#define PLAIN_same PLAIN
#define PLAIN_wide PLAIN
#define PLAIN_other(symbol, name)
#define FIRST(name, since, twin) CHOSEN(TWIN_, THERE(name))(name, twin)
#define LATER(symbol, name, since, twin, form) CHOSEN(TWIN_, THERE(symbol))(symbol, twin) PLAIN_##form(symbol, name)
BARCUDA_API(FIRST, LATER)
#undef FIRST
#undef LATER

namespace barcuda::soft::driver {
namespace {

// In the order of api_symbols, whose last ones, of graphics, are not here.
struct EntryPoint {
    void* function;  // none: not implemented
    void* twin;      // none: the function has no stream
};
#define FUNCTION(symbol, twin) CHOSEN(FUNCTION_, THERE(symbol))(symbol, twin),
#define FUNCTION_0(symbol, twin) \
    { nullptr, nullptr }
#define FUNCTION_1(symbol, twin) \
    { reinterpret_cast<void*>(&symbol), TWIN_OF_##twin(symbol) }
#define TWIN_OF_none(symbol) nullptr
#define TWIN_OF_ptds(symbol) reinterpret_cast<void*>(&symbol##_ptds)
#define TWIN_OF_ptsz(symbol) reinterpret_cast<void*>(&symbol##_ptsz)
#define FIRST(name, since, twin) FUNCTION(name, twin)
#define LATER(symbol, name, since, twin, form) FUNCTION(symbol, twin)
const EntryPoint entry_points[] = {BARCUDA_API(FIRST, LATER)};

CUdriverProcAddressQueryResult look_up(const char* name, int version, cuuint64_t flags, void** found) {
    int newest = 0;
    bool known = false;
    *found = nullptr;
    for (std::size_t i = 0; i < std::size(entry_points); i++) {
        const auto& [function, twin] = entry_points[i];
        if (std::strcmp(api_symbols[i].name, name) && std::strcmp(api_symbols[i].symbol, name)) continue;
        known = known || function;
        if (api_symbols[i].since > version || api_symbols[i].since <= newest) continue;
        newest = api_symbols[i].since;
        *found = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && twin ? twin : function;
    }
    return *found  ? CU_GET_PROC_ADDRESS_SUCCESS
           : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
    constexpr cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !pfn || (flags & ~both) != 0 || flags == both) return CUDA_ERROR_INVALID_VALUE;
    const CUdriverProcAddressQueryResult status = look_up(symbol, cudaVersion, flags, pfn);
    if (symbolStatus) *symbolStatus = status;
    return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
}
