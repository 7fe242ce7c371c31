// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/admission.h"

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/watched.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/host_function.h"

namespace barcuda::guest::admission {
namespace {

// (The default streams have the numbers 0 to 2, and are no objects.)
bool names_object(const Rule& rule, const std::uint64_t* given) { return rule.object >= 0 && given[rule.object] > 2; }

int in_a_child(const Rule& rule, const std::uint64_t* given) {
    if (rule.in_child) return CUDA_SUCCESS;
    if (names_object(rule, given)) {
        if (rule.named == WithObject::passes) return done;
        return rule.named == WithObject::reads ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    }
    return rule.before_init == CUDA_SUCCESS ? CUDA_ERROR_NOT_INITIALIZED : rule.before_init;
}

}  // namespace
}  // namespace barcuda::guest::admission

int barcuda_admit(unsigned function, const std::uint64_t* given) noexcept {
    using namespace barcuda::guest;
    const admission::Rule& rule = admission::rules[function];
    if (forked_after_init()) return admission::in_a_child(rule, given);
    if (!Client::initialized()) return rule.before_init;
    if (in_host_function()) {
        const bool works = rule.named != admission::WithObject::nothing_else && admission::names_object(rule, given);
        return rule.in_host_function || works ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
    }
    if (const int fault = lost_context.load(std::memory_order_relaxed); fault && !rule.after_fault) return fault;
    if (rule.waits && open_captures.load(std::memory_order_relaxed) > 0) return forbidden_by_captures();
    return CUDA_SUCCESS;
}
