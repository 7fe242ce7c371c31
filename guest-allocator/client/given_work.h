// SPDX-License-Identifier: Apache-2.0
// given_work.h: which stream was given something to do last, and when: so that a wait for the device asks the GPU for
// those streams alone that may be at work. Times are counts of commands that were work (Queue::work).
#pragma once
#include <cuda.h>

#include <atomic>
#include <tuple>
#include <type_traits>

#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/observer.h"

namespace barcuda::guest {

struct GivenWork {
    using Time = std::atomic<std::uint64_t>;
    IdTable<Time> streams;  // a context's legacy stream has the context's id, which no stream has
    IdTable<Time> unnamed;  // by context: by commands that name no stream of it
    Time out_of_memory{0};  // in place of an entry that could not be made

    Time& of(IdTable<Time>& table, std::uint64_t id) noexcept {
        Time* const entry = table.at(id);
        return entry ? *entry : out_of_memory;
    }
    Time& of_stream(CUcontext context, CUstream stream) noexcept {
        return of(streams, stream ? reinterpret_cast<std::uint64_t>(stream) : reinterpret_cast<std::uint64_t>(context));
    }
    Time& of_unnamed(CUcontext context) noexcept { return of(unnamed, reinterpret_cast<std::uint64_t>(context)); }

    // Of a command with these arguments, in the current context.
    template <class... Arguments> Time& of_command(const std::tuple<Arguments...>& arguments) noexcept {
        if constexpr ((std::is_same_v<Arguments, CUstream> || ...))
            return of_stream(current_context(), std::get<CUstream>(arguments));
        else return of_unnamed(current_context());
    }
};
inline constinit GivenWork given_work;

}  // namespace barcuda::guest
