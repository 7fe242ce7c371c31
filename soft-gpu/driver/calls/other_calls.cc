// SPDX-License-Identifier: Apache-2.0
// other_calls.cc: the profiler's switches, which have no effect.
#include "soft-gpu/driver/context.h"

using namespace barcuda::soft::driver;

CUresult cuProfilerStart() {
    return api([] { current_context(); });
}
CUresult cuProfilerStop() {
    return api([] { current_context(); });
}
