// SPDX-License-Identifier: Apache-2.0
// context.h: which context is current in the calling thread: a stack, kept here; the worker is told with each command.
// And which contexts there are.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "guest-allocator/client/observer.h"

namespace barcuda::guest {

// The contexts of this process that live: the primary ones that were asked for, and those that it made.
std::vector<CUcontext> living_contexts() noexcept;
bool several_contexts() noexcept;                // more than one; without a lock
CUdevice device_of(CUcontext context) noexcept;  // without a lock, too
CUcontext context_on(
    CUdevice device) noexcept;  // the current one if it is this device's, else the device's first; null: none
// How many contexts of this id have ended: a reset ends a primary context, whose id stays.
std::uint32_t ends_of(CUcontext context) noexcept;
// A context of the library's own on the device, which the program neither finds nor waits for. Null: not available.
// Both without a lock.
CUcontext make_own_context(CUdevice device) noexcept;
void end_own_context(CUcontext context) noexcept;
// A green context is one of these, too, and to programs both have one handle: a part of its device's primary context,
// which has all that is made in it but its streams. As it was made by the worker: from now on the program finds it.
// False: there are too many contexts.
bool note_green(CUcontext context, CUdevice device) noexcept;
bool is_green(CUcontext context) noexcept;
std::vector<CUcontext> green_contexts_of(CUcontext whole) noexcept;
CUresult end_green(CUcontext context) noexcept;
// Whose the memory, the code and the events are that are made in this context: its own, or its whole's.
CUcontext owner_of(CUcontext context) noexcept;
// A number that is unique in this process: the id of a context, and of a stream.
unsigned long long new_number() noexcept;

}  // namespace barcuda::guest
