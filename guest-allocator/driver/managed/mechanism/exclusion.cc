// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/managed/mechanism/exclusion.h"

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest::managed {
namespace {

constinit thread_local unsigned shut_here = 0;

}  // namespace

unsigned own_gates() noexcept { return shut_here; }

Gate::Gate() noexcept {
    {
        std::lock_guard lock(state().mutex);
        state().gates.shut();
        ++shut_here;
    }
    state().gates.await_posts([](auto done) {
        for (Patience patience; !done(); patience.wait(*Client::current()))
            if (Client::current()->ended() != CUDA_SUCCESS) return;
    });
}

bool Gate::is_the_only_one() const noexcept { return state().gates.none_but(shut_here); }

Gate::~Gate() {
    std::lock_guard lock(state().mutex);
    --shut_here;
    state().gates.open();
}

Mutex& exclusive_turn() noexcept {
    static constinit Mutex mutex;
    return mutex;
}

Quiescent::Quiescent() noexcept { wait_for_contexts_quietly(); }

}  // namespace barcuda::guest::managed
