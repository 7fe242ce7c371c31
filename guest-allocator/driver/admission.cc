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

// What the call's object is: each of these functions names one.
CUstream stream_of(const Rule& rule, const std::uint64_t* given) {
    const std::uint64_t stream = given[rule.object];
    return stream || !rule.per_thread ? reinterpret_cast<CUstream>(stream) : CU_STREAM_PER_THREAD;
}

CUresult while_captures_are_open(const Rule& rule, const std::uint64_t* given) {
    switch (rule.in_capture) {
        case InCapture::nothing: return CUDA_SUCCESS;
        case InCapture::may_wait: break;
        case InCapture::waits_on_stream:
            if (const CUresult r = spoil_captures_that_hold(stream_of(rule, given))) return r;
            break;
        case InCapture::waits_on_event:
            if (was_captured(reinterpret_cast<CUevent>(given[rule.object]))) return CUDA_SUCCESS;
            break;
        case InCapture::in_no_graph:
        case InCapture::attaches:
            if (capturing(stream_of(rule, given))) return spoil_capture(stream_of(rule, given));
            if (rule.in_capture == InCapture::in_no_graph) return CUDA_SUCCESS;
            break;
    }
    return forbidden_by_captures();
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
    const bool captures = open_captures.load(std::memory_order_relaxed) > 0;
    return captures ? admission::while_captures_are_open(rule, given) : CUDA_SUCCESS;
}
