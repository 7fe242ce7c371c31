// SPDX-License-Identifier: Apache-2.0
// host_function.h: functions of the program that work of the GPU waits for. (How streams get them: host_launch.cc.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::guest {

// The number under which the worker asks for `function(data)`; 0: there is no memory. Kept: a graph may call it many
// times, and no call is known to be the last. The same function with the same data has one number.
std::uint64_t keep_function(CUhostFn function, void* data) noexcept;
// The same for a function that is called once; and if it will not be called after all.
std::uint64_t await_function(CUhostFn function, void* data) noexcept;
std::uint64_t await_callback(CUstreamCallback callback, void* data, CUstream stream) noexcept;
void forget_function(std::uint64_t number) noexcept;
// The calling thread runs such a function now: its stream is held until the function returns.
bool in_host_function() noexcept;
// Of the function that the calling thread runs now: `then` is called once it has returned, before its stream continues.
void when_function_returns(void (*then)() noexcept) noexcept;
// Whether the program has given any to a stream or a graph.
bool host_functions_given() noexcept;
// Whether graphs may have some.
bool graphs_call() noexcept;
// Some have been launched and have not returned yet, or graphs may ask for one.
bool host_functions_awaited() noexcept;
bool other_functions_awaited() noexcept;  // than the one that this thread is about to launch
bool kept_function(std::uint64_t number, CUDA_HOST_NODE_PARAMS& out) noexcept;

}  // namespace barcuda::guest
