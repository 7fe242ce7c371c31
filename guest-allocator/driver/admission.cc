// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/admission.h"

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/watched.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/host_function.h"

CUresult barcuda_admit(unsigned function) noexcept {
    using namespace barcuda::guest;
    const admission::Rule& rule = admission::rules[function];
    if (forked_after_init()) return rule.in_child ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    if (!Client::initialized()) return rule.before_init;
    if (in_host_function()) return rule.in_host_function ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
    if (const int fault = lost_context.load(std::memory_order_relaxed); fault && !rule.after_fault)
        return static_cast<CUresult>(fault);
    if (rule.waits && open_captures.load(std::memory_order_relaxed) > 0) return forbidden_by_captures();
    return CUDA_SUCCESS;
}
