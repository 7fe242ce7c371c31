// SPDX-License-Identifier: Apache-2.0
// other_names.h: how a library exports a function under another name of the driver API's: api.h says which names there
// are. The caller has included <cuda.h> with __CUDA_API_VERSION_INTERNAL, which declares every name.
#pragma once
#include <cuda.h>

#include "base/os/other_name.h"

namespace barcuda {

// `function`, called while a Scope lives, in which no stream means the calling thread's own.
template <auto function, class Scope, class Prototype> struct InScope;
template <auto function, class Scope, class... P> struct InScope<function, Scope, CUresult(P...)> {
    static CUresult call(P... arguments) {
        const Scope here;
        return function(arguments...);
    }
};

}  // namespace barcuda

#define BARCUDA_NAME(name, ...) BARCUDA_OTHER_NAME(name, decltype(::name), __VA_ARGS__)

// symbol_ptsz or symbol_ptds; nothing where the function has no twin.
#define BARCUDA_TWIN(symbol, twin, Scope) BARCUDA_TWIN_##twin(symbol, Scope)
#define BARCUDA_TWIN_none(symbol, Scope)
#define BARCUDA_TWIN_ptds(symbol, Scope) \
    BARCUDA_NAME(symbol##_ptds, &::barcuda::InScope<&::symbol, Scope, decltype(::symbol)>::call)
#define BARCUDA_TWIN_ptsz(symbol, Scope) \
    BARCUDA_NAME(symbol##_ptsz, &::barcuda::InScope<&::symbol, Scope, decltype(::symbol)>::call)
