// SPDX-License-Identifier: Apache-2.0
// random.cc: cuRAND. A generator is the host library's; numbers go where the program wants them: to device memory, or,
// of a generator on the host, to the region, and from there to memory that the worker does not reach.
#include "guest-allocator/client/exports.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/libraries/library.h"

namespace barcuda::guest {
namespace {

constexpr std::uint64_t on_host = 1ull << 32;  // in what the program holds: a generator that works on the host
bool works_on_host(curandGenerator_t g) { return reinterpret_cast<std::uint64_t>(g) & on_host; }

template <Op op> curandStatus_t create(curandGenerator_t* generator, curandRngType_t type, std::uint64_t mark) {
    if (!generator) return CURAND_STATUS_OUT_OF_RANGE;
    curandGenerator_t fresh = nullptr;
    const CUresult r = send<op>(&fresh, type);
    if (r == CUDA_SUCCESS)
        *generator = reinterpret_cast<curandGenerator_t>(reinterpret_cast<std::uint64_t>(fresh) | mark);
    return Status<curandStatus_t>::of(r);
}

// Numbers for memory of the program's own.
template <Op op, class T, class... More>
curandStatus_t fetch(curandGenerator_t generator, T* to, std::size_t count, More... more) {
    if (count > (std::size_t{1} << 40) / sizeof(T)) return CURAND_STATUS_ALLOCATION_FAILED;
    Answer answer(count * sizeof(T));
    if (!answer.get()) return CURAND_STATUS_ALLOCATION_FAILED;
    const curandStatus_t status = ask<op>(generator, static_cast<T*>(answer.get()), count, more...);
    if (status == CURAND_STATUS_SUCCESS) std::memcpy(to, answer.get(), count * sizeof(T));
    return status;
}

template <Op op, class Prototype> struct Stub;
template <Op op, class... P> struct Stub<op, curandStatus_t(P...)> {
    static curandStatus_t function(P... given) { return ask<op>(given...); }
};
template <Op op, class T, class... More> struct Stub<op, curandStatus_t(curandGenerator_t, T*, std::size_t, More...)> {
    static curandStatus_t function(curandGenerator_t generator, T* to, std::size_t count, More... more) {
        const bool near = count == 0 || (count <= ~std::size_t{0} / sizeof(T) && heap::reach(to, count * sizeof(T)));
        if (works_on_host(generator) && !near) {  // NVIDIA's would crash on memory that the CPU does not have
            if (!to || is_device(to)) return CURAND_STATUS_LAUNCH_FAILURE;
            return fetch<op>(generator, to, count, more...);
        }
        return ask<op>(generator, to, count, more...);
    }
};

}  // namespace

curandGenerator_t sent(curandGenerator_t generator) noexcept {
    return reinterpret_cast<curandGenerator_t>(reinterpret_cast<std::uint64_t>(generator) & ~on_host);
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

RANDOM curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
    return create<Op::curandCreateGenerator>(generator, type, 0);
}
RANDOM curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
    return create<Op::curandCreateGeneratorHost>(generator, type, on_host);
}
// To destroy a generator gives memory back, which waits for the GPU. The guest does that, not the worker.
RANDOM curandDestroyGenerator(curandGenerator_t generator) {
    if (runtime::ready() == CUDA_SUCCESS) wait_for_streams(current_context(), false);
    return ask<Op::curandDestroyGenerator>(generator);
}

// ---- the rest: rows and nothing else
#define EXPORT(name) \
    EXPORT_AS(name, decltype(::name), barcuda::guest::Stub<barcuda::Op::name, decltype(::name)>::function)
BARCUDA_CURAND_ROWS(EXPORT_ROW)
