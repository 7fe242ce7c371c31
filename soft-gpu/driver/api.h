// SPDX-License-Identifier: Apache-2.0
// api.h: the frame of every exported function of the software GPU's libcuda.so.1.
//
// Read the driver half in this order: driver.h (the devices and their settings), context.h, memory.h (what a pointer
// is), operation.h and stream.h (what runs when), module.h; then the *_calls.cc files, which contain the functions of
// <cuda.h> in its order, and entry_points.cc, which gives them their other names. A function that is not implemented is
// absent: there are no stubs.
//
// The Makefile links the archives soft-driver and soft-engine into the library; a test links the same two and calls the
// driver API in its own process.
#pragma once
// Declares all versions of each function and the per-thread-default-stream twins, without the macros that hide them.
// What is declared here is exported where we define it; everything else is hidden.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT
#include <cuda.h>
#pragma GCC visibility push(default)
#include <cudaProfiler.h>
#pragma GCC visibility pop

#include <cstdint>
#include <new>
#include <string>
#include <type_traits>

#include "soft-gpu/driver/checkpoint.h"
#include "soft-gpu/driver/tracing.h"
#include "soft-gpu/engine.h"

namespace barcuda::soft::driver {

// One line on standard error: what happened and where.
void log(const std::string& line);

// Throws Error: CUDA_ERROR_NOT_INITIALIZED before cuInit and in the child of a process that has called it.
void require_initialized();

// Set around a host function: the driver's functions are forbidden in it.
extern thread_local bool in_host_function;
// Set around a _ptsz or _ptds entry point: stream 0 is the calling thread's own.
extern thread_local bool per_thread_default;

[[noreturn]] inline void fail(CUresult code, std::string message = {}) { throw Error{code, std::move(message)}; }
inline void require(bool condition, CUresult code = CUDA_ERROR_INVALID_VALUE) {
    if (!condition) fail(code);
}
[[noreturn]] void refuse(const std::string& what);  // CUDA_ERROR_NOT_SUPPORTED, and a line that names it

// Runs a function's body and turns what it throws into its result. A message goes to standard error.
template <class Body> CUresult answer(const char* name, const Body& body) {
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return CUDA_SUCCESS;
        } else {
            return body();
        }
    } catch (const Error& error) {
        if (!error.message.empty()) log(std::string(name) + ": " + error.message);
        return static_cast<CUresult>(error.code);
    } catch (const std::bad_alloc&) { return CUDA_ERROR_OUT_OF_MEMORY; }
}

// The frame of almost every function: it needs cuInit, and is forbidden in a host function and while the process is
// locked.
template <class Body> CUresult api(const Body& body, const char* name = __builtin_FUNCTION()) {
    tracing::TracedCall traced(name);
    return traced.result(answer(name, [&] {
        require_initialized();
        const Gate::Call call;
        return body();
    }));
}

}  // namespace barcuda::soft::driver
