// SPDX-License-Identifier: Apache-2.0
// names.h: CUPTI's numbers of functions ("callback ids"), for the functions that a program enters (client/activity.h).
#pragma once
#include <cupti.h>

#include <cstdint>

#include "guest-allocator/cupti/parameters.h"

namespace barcuda::guest::cupti {

// A call's place in CUPTI's terms.
struct Function {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
    const char* name;  // without the runtime's version
    Gather gather;     // null: the parameters are not known
};
// By a recorder's number of the function; null: CUPTI has no number for it.
const Function* function_at(std::uint32_t entry) noexcept;

// CUPTI's name of a number, with the version; null: there is none.
const char* name_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept;

// More than any number of either domain.
inline constexpr std::uint32_t most_ids = 1024;
static_assert(CUPTI_DRIVER_TRACE_CBID_SIZE <= most_ids && CUPTI_RUNTIME_TRACE_CBID_SIZE <= most_ids);

}  // namespace barcuda::guest::cupti
