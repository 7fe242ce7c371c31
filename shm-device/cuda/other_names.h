// SPDX-License-Identifier: Apache-2.0
// other_names.h: how a library exports a function under another name of the driver API's: api.h says which names there
// are. A name is an ifunc, so that its prototype is the function's own and a call costs what the function costs. The
// caller has included <cuda.h> with __CUDA_API_VERSION_INTERNAL, which declares every name.
#pragma once
#include <cuda.h>

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

// Resolvers run while the library is being loaded, before any sanitizer is ready.
#define BARCUDA_NAME(name, ...)                                                                                     \
    extern "C"                                                                                                      \
        __attribute__((no_sanitize("address", "undefined", "thread"))) decltype(&::name) barcuda_resolve_##name() { \
        return __VA_ARGS__;                                                                                         \
    }                                                                                                               \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] decltype(::name) name;

// symbol_ptsz or symbol_ptds; nothing where the function has no twin.
#define BARCUDA_TWIN(symbol, twin, Scope) BARCUDA_TWIN_##twin(symbol, Scope)
#define BARCUDA_TWIN_none(symbol, Scope)
#define BARCUDA_TWIN_ptds(symbol, Scope) \
    BARCUDA_NAME(symbol##_ptds, &::barcuda::InScope<&::symbol, Scope, decltype(::symbol)>::call)
#define BARCUDA_TWIN_ptsz(symbol, Scope) \
    BARCUDA_NAME(symbol##_ptsz, &::barcuda::InScope<&::symbol, Scope, decltype(::symbol)>::call)
