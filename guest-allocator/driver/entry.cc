// SPDX-License-Identifier: Apache-2.0
// entry.cc: how programs find driver functions (cuGetProcAddress), and the names of errors.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "guest-allocator/client/log.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/symbols.h"
#include "shm-device/cuda/api.h"
#include "shm-device/cuda/results.h"

namespace {

using namespace barcuda::guest;

// The twin of a symbol that is there, where it is asked for.
void* look_up(const ApiSymbol& symbol, bool per_thread) {
    void* const function = exported(symbol.symbol);
    if (!function || !per_thread || symbol.twin == Twin::none) return function;
    char twin[160];
    snprintf(twin, sizeof twin, "%s_%s", symbol.symbol, symbol.twin == Twin::ptsz ? "ptsz" : "ptds");
    return exported(twin);
}

// What a version of CUDA means by a name, and by no symbol's: the newest symbol that it has had until then. A function
// of a later version is there, and not sufficient; so are all twins before CUDA 7.0. What is refused (unsupported.sh)
// is there, as natively for a device that cannot do it: attributes say what a device can. Of the first versions with
// 32-bit addresses the later ones take all parameters.
void* find(std::string_view name, int version, bool per_thread, CUdriverProcAddressQueryResult& status) {
    constexpr int first_twins = 7000;
    const auto named = [&](const ApiSymbol& s) { return s.name == name; };
    const auto first = std::find_if(std::begin(api_symbols), std::end(api_symbols), named);
    const auto last = std::find_if_not(first, std::end(api_symbols), named);
    auto meant = last;
    while (meant != first && meant[-1].since > version) --meant;
    const bool early = meant != first && per_thread && meant[-1].twin != Twin::none && version < first_twins;
    status = first == last             ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
             : meant == first || early ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SUCCESS;
    if (status != CU_GET_PROC_ADDRESS_SUCCESS) return nullptr;
    if (meant != last && meant->form == Form::wide) ++meant;
    void* const found = look_up(meant[-1], per_thread);
    if (!found) status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found;
}

}  // namespace

// As NVIDIA's driver (580): a name that is not there is no error; what cannot be asked for is.
CU cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
    constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !function || flags & ~known || version > CUDA_VERSION) return CUDA_ERROR_INVALID_VALUE;
    if (version < 0) version = CUDA_VERSION;  // any
    CUdriverProcAddressQueryResult found;
    *function = find(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, found);
    if (!*function && barcuda::guest::logs_debug())
        barcuda::guest::log_line("cuGetProcAddress: %s of CUDA %d.%d is not there", symbol, version / 1000,
                                 version % 1000 / 10);
    if (status) *status = found;
    return CUDA_SUCCESS;
}

CU cuGetErrorName(CUresult error, const char** text) {
    const barcuda::ResultText* r = barcuda::find_result(error);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = r ? r->name : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU cuGetErrorString(CUresult error, const char** text) {
    const barcuda::ResultText* r = barcuda::find_result(error);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = r ? r->text : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Marks this library, so that a bridge that is started in a guest's environment does not take it for the driver.
extern "C" [[gnu::visibility("default")]] const char barcuda_guest_library[] = BARCUDA_VERSION;
