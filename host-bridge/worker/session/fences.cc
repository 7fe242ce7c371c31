// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/fences.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// After these errors a context, and with it the process, does no more work: <cuda.h> says so for most of them, and
// drivers answer every later call in the same way after the others.
constexpr bool is_lasting(CUresult error) {
    switch (error) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_CONTAINED:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        case CUDA_ERROR_EXTERNAL_DEVICE: return true;
        default: return false;
    }
}

}  // namespace

bool Fences::Fence::reached() const { return observe(*word) >= value; }

Verdict Fences::promise(const ext::Fence& fence) {
    if (fence.offset == 0) return fine;
    promised_.word = reinterpret_cast<std::uint64_t*>(extents_.locate(fence.offset, 8));
    promised_.value = fence.value;
    return honest(fence.offset % 8 == 0 && promised_.word);
}

CUresult Fences::write(CUstream stream) {
    if (!promised_.word) return CUDA_SUCCESS;
    // The stream's own context, whichever one is current: a fault shows there.
    if (contexts_.living().size() > 1) contexts_.switch_to(contexts_.of(stream));
    // A fence in a graph would be written at each of its launches. Waiting in a capture is an error, which the driver
    // reports.
    if (streams_.capturing(stream)) return driver_.cuStreamSynchronize(stream);
    // The fence is in the channel, or in an extent that the driver had no room to register.
    if (extents_.want(promised_.word))
        if (CUresult r = contexts_.register_extents(); r != CUDA_SUCCESS && extents_.want(promised_.word)) return r;
    const CUresult r = driver_.cuStreamWriteValue64_v2(stream, reinterpret_cast<CUdeviceptr>(promised_.word),
                                                       promised_.value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (r != CUDA_SUCCESS) return r;
    if (fences_.size() >= 4096) watch();
    promised_.stream = stream;
    promised_.context = contexts_.current();
    promised_.behind = in_flight_.mark(promised_.context, stream);
    fences_.push_back(std::exchange(promised_, {}));
    return r;
}

Verdict Fences::end_command(std::uint32_t op, CUresult result, bool answered) {
    if (result != CUDA_SUCCESS && !answered) post_failure(op, result);
    else note(result);
    if (!promised_.word) return fine;
    if (refused_ >= most_refused) return a_lie;
    promised_.refused = true;
    fences_.push_back(promised_);
    ++refused_;
    promised_ = {};
    collect();
    return fine;
}

bool Fences::collect() {
    // The CPU writes the fences that the GPU will not write, but only after earlier values of the same word, which
    // would otherwise overwrite them.
    for (auto f = fences_.begin(); f != fences_.end(); ++f)
        if (f->refused && std::none_of(fences_.begin(), f, [&](const Fence& earlier) {
                return earlier.word == f->word && !earlier.reached();
            }))
            release(*f);
    if (std::erase_if(fences_, [&](const Fence& f) {
            if (!f.reached()) return false;
            if (f.refused) --refused_;
            else in_flight_.reached(f.behind);
            return true;
        }))
        bell_.wake();
    return !fences_.empty();
}

void Fences::forget(const std::byte* memory, std::uint64_t bytes) {
    const auto lies_there = [=](const Fence& f) {
        return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(f.word) - memory) < bytes;
    };
    std::erase_if(fences_, [&](const Fence& f) {
        if (!lies_there(f)) return false;
        if (f.refused) --refused_;
        return true;
    });
    if (lies_there(promised_)) promised_ = {};
}

void Fences::watch() {
    if (!collect()) return;
    const Contexts::Visit visit(contexts_);
    std::vector<CUcontext> asked;  // each context reports its own faults; one may be blocked while another one ends
    for (const Fence& f : fences_) {
        if (f.refused || std::ranges::find(asked, f.context) != asked.end()) continue;
        asked.push_back(f.context);
        contexts_.switch_to(f.context);
        const CUresult r = streams_.askable(f.stream) ? driver_.cuStreamQuery(f.stream) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) return fault(r);
    }
}

void Fences::context_gone(CUcontext context) {
    for (Fence& f : fences_)
        if (f.context == context) {
            refused_ += !f.refused;
            f.refused = true;
            f.stream = nullptr;
            f.context = nullptr;
        }
    collect();
}

void Fences::stream_gone(CUstream stream) {
    for (Fence& f : fences_)  // from now on the default stream reports a fault
        if (f.stream == stream) f.stream = nullptr;
}

void Fences::post_failure(std::uint32_t op, CUresult result) {
    log::debug("posted {} failed: {}", rows_.name(op), driver_.error_name(result));
    status_.posted_op = rows_.theirs(op);
    publish(status_.posted_error, static_cast<std::int32_t>(result));
    publish(status_.posted_count, ++posted_failures_);
    note(result);
}

// Notes how a command has ended, whether its reply or the status page says so.
void Fences::note(CUresult result) {
    output_.note(result);
    if (is_lasting(result)) fault(result);
}

void Fences::fault(CUresult error) {
    output_.note(error);
    if (fault_ == CUDA_SUCCESS) {
        fault_ = error;
        log::warn("the GPU reported {}; the client's context is lost", driver_.error_name(error));
        publish(status_.context_error, static_cast<std::int32_t>(error));
    }
    for (const Fence& f : fences_) release(f);
    fences_.clear();
    refused_ = 0;
    in_flight_.all_done();  // no more work will be done
    bell_.wake();
}

// Only here does the CPU write a fence. The caller has published the reason.
void Fences::release(const Fence& fence) {
    if (!fence.reached()) publish(*fence.word, fence.value);
}

}  // namespace barcuda
