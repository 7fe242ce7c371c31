// context.h: which context is current in the calling thread: a stack, kept here; the worker is told with each command.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace barcuda {

CUcontext current_context() noexcept;  // the top of this thread's stack; null: none
inline std::uint32_t current_context_id() noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(current_context()));
}

// A number that nothing else of this process has had: the id of a context, and of a stream.
unsigned long long new_number() noexcept;

}  // namespace barcuda
