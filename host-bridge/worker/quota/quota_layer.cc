// SPDX-License-Identifier: Apache-2.0
// quota_layer.cc: the functions that replace, in the driver's table, those that allocate and free device memory: each
// asks the quota first (quota.h), and reports the result to it. None is written for a single function: what a function
// needs follows from its row: from the lives of its parameters and from its traits (shm-device/rows/lives.h).
#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "host-bridge/worker/quota/granter.h"
#include "host-bridge/worker/quota/quota.h"
#include "shm-device/kinds/structs.h"
#include "shm-device/rows/lives.h"

namespace barcuda {
namespace {

Quota* of_this_process = nullptr;  // the driver's table has room for functions only

// Saturates: no driver has that much.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? ~std::uint64_t{0} : result;
}
std::uint64_t texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR& a) {
    constexpr std::uint64_t most = 16;  // also of compressed and other formats
    const std::uint64_t bytes = crossing::element_bytes(a.Format, a.NumChannels);
    return bytes ? bytes : most;
}
std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& a) {
    const std::uint64_t faces = std::max<std::uint64_t>(a.Depth, 1), rows = std::max<std::uint64_t>(a.Height, 1);
    return product(product(product(a.Width, texel_bytes(a)), rows), faces);
}
std::uint64_t bytes_of(const CUDA_ARRAY_DESCRIPTOR& a) {
    return bytes_of(CUDA_ARRAY3D_DESCRIPTOR{a.Width, a.Height, 0, a.Format, a.NumChannels, 0});
}
std::uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR a, unsigned levels) {
    std::uint64_t sum = 0;
    for (unsigned level = 0; level < std::min(levels, 64u); ++level) {
        const std::uint64_t bytes = bytes_of(a);
        sum = bytes > ~sum ? ~std::uint64_t{0} : sum + bytes;
        const bool layers = a.Flags & CUDA_ARRAY3D_LAYERED;
        a.Width = std::max<std::size_t>(a.Width / 2, 1);
        a.Height = a.Height ? std::max<std::size_t>(a.Height / 2, 1) : 0;
        if (!layers && a.Depth) a.Depth = std::max<std::size_t>(a.Depth / 2, 1);
    }
    return sum;
}

// ---- the bytes of a row's charges(size, count)
std::uint64_t charged(std::size_t bytes) { return bytes; }
std::uint64_t charged(std::size_t width, std::size_t height) {  // rows, which a driver pads
    constexpr std::size_t most_padding = 511;
    return product(width > ~most_padding ? width : (width + most_padding) & ~most_padding, height);
}
std::uint64_t charged(const CUDA_ARRAY_DESCRIPTOR* array) { return bytes_of(*array); }
std::uint64_t charged(const CUDA_ARRAY3D_DESCRIPTOR* array) { return bytes_of(*array); }
std::uint64_t charged(const CUDA_ARRAY3D_DESCRIPTOR* array, unsigned levels) { return bytes_of(*array, levels); }
std::uint64_t charged(const CUDA_MEM_ALLOC_NODE_PARAMS* node) { return node->bytesize; }
template <Op op> std::uint64_t charged_for(const auto& arguments) {
    const auto size = std::get<charged_size(op)>(arguments);
    if constexpr (charged_count(op) == 0) return charged(size);
    else return charged(size, std::get<charged_count(op)>(arguments));
}

template <class Handle> std::uint64_t name_of(Handle handle) { return reinterpret_cast<std::uint64_t>(handle); }
std::uint64_t name_of(CUdeviceptr address) { return address; }

template <class T, class... P> constexpr bool is_among = (std::is_same_v<T, P> || ...);
template <class T, class... P> T argument(const std::tuple<P...>& arguments) {
    return std::get<place_of<T, P...>()>(arguments);
}

// ---- what has ended
void ended(CUarray array) { quota()->freed(name_of(array)); }
void ended(CUmipmappedArray array) { quota()->freed(name_of(array)); }
void ended(CUmemoryPool pool) { quota()->forget_pool(pool); }
void ended(CUgraphExec exec) { quota()->forget_exec(exec); }
void ended(CUgraph) { quota()->count_graphs(); }
void ended(CUcontext context) { quota()->context_gone(context); }
// An address, a handle of physical memory and a texture have the same type in C, but different kinds.
template <class Its> constexpr bool is_handle = requires(Its its) { its.id; };
template <class Its> constexpr bool is_memory = requires { Its::frees; };
template <class T, class> constexpr bool is_counted = requires(T value) { ended(value); };
template <class Its> constexpr bool is_counted<CUdeviceptr, Its> = is_handle<Its> || is_memory<Its>;

// The first parameter that the call drops and that the quota knows; the number of parameters if there is none.
template <class Arguments, class Parameters> constexpr std::size_t dropped_at = 0;
template <class... P, class... Its> constexpr std::size_t dropped_at<std::tuple<P...>, std::tuple<Its...>> = [] {
    constexpr bool is[] = {(Its::life == kind::Life::drops && is_counted<P, Its>)..., true};
    std::size_t i = 0;
    while (!is[i]) ++i;
    return i;
}();

// Makes a call of the driver, and tells the quota if it succeeds.
template <class Call, class Then> CUresult noted(const Call& call, const Then& then) {
    const std::lock_guard lock(quota()->mutex);
    const CUresult r = call();
    if (r == CUDA_SUCCESS) then();
    return r;
}
// Makes a call that lets the driver take memory of its own, and undoes it if that is too much.
template <class Call, class Undo> CUresult admitted(const Call& call, const Undo& undo) {
    const std::lock_guard lock(quota()->mutex);
    const CUresult r = call();
    if (r != CUDA_SUCCESS || quota()->admits_the_driver(quota()->current())) return r;
    undo();
    return CUDA_ERROR_OUT_OF_MEMORY;
}
void undo(CUmodule module) { quota()->real.cuModuleUnload(module); }
void undo(CUlibrary library) { quota()->real.cuLibraryUnload(library); }
void close(CUdeviceptr address, CUipcMemHandle*) { quota()->real.cuIpcCloseMemHandle(address); }
void close(CUdeviceptr address, CUmemPoolPtrExportData*) { quota()->real.cuMemFreeAsync(address, nullptr); }

template <Op> constexpr auto entry = nullptr;
#define X(name, ...) template <> constexpr auto entry<Op::name> = &Driver::name;
BARCUDA_DRIVER_ROWS(X)
#undef X

// The replacement for a row's function.
template <Op op, class Prototype> struct Layered;
template <Op op, class... P> struct Layered<op, CUresult (*)(P...)> {
    using Parameters = typename RowOf<op>::Parameters;
    using Arguments = std::tuple<P...>;
    static constexpr bool crosses = RowOf<op>::how != How::guest;
    static constexpr std::size_t dropped =
        crosses ? dropped_at<typename RowOf<op>::Arguments, Parameters> : sizeof...(P);
    static constexpr bool drops = dropped < RowOf<op>::count;
    static constexpr bool makes_pool = has(op, trait::uncharged) && is_among<CUmemoryPool*, P...>;
    static constexpr bool instantiates = is_among<CUgraphExec*, P...> && is_among<CUgraph, P...>;
    static constexpr bool places = has(op, trait::work) && is_among<CUgraphExec, P...>;  // what a graph allocates
    static constexpr bool is_needed = charges(op) || drops || makes_pool || instantiates || places ||
                                      has(op, trait::loads | trait::may_load | trait::maps | trait::retains |
                                                  trait::trims | trait::resets | trait::tells_room | trait::opens);

    static CUresult function(P... given) {
        const Arguments all(given...);
        const auto call = [&] { return (quota()->real.*entry<op>)(given...); };
        if constexpr (charges(op)) return charge(all, call);
        else if constexpr (has(op, trait::loads)) return admitted(call, [&] { undo(*std::get<0>(all)); });
        else if constexpr (has(op, trait::may_load)) {
            const CUresult r = call();
            return r == CUDA_SUCCESS && quota()->over() ? CUDA_ERROR_OUT_OF_MEMORY : r;
        } else if constexpr (has(op, trait::opens)) {
            using Shown = std::conditional_t<is_among<CUipcMemHandle, P...>, CUipcMemHandle, CUmemPoolPtrExportData>;
            const std::lock_guard lock(quota()->mutex);
            const CUresult r = call();
            if (r != CUDA_SUCCESS || quota()->opened(*std::get<0>(all))) return r;
            close(*std::get<0>(all), static_cast<Shown*>(nullptr));
            return CUDA_ERROR_OUT_OF_MEMORY;
        } else if constexpr (places) {
            if (!quota()->has_allocating_graphs()) return call();
            return quota()->launch(argument<CUgraphExec>(all), call);
        } else if constexpr (has(op, trait::resets)) {
            CUcontext context = nullptr;
            if (quota()->real.cuDevicePrimaryCtxRetain(&context, argument<CUdevice>(all)) == CUDA_SUCCESS)
                quota()->real.cuDevicePrimaryCtxRelease_v2(argument<CUdevice>(all));
            return noted(call, [&] { ended(context); });
        } else return noted(call, [&] { note(all); });
    }

    static CUresult charge(const Arguments& all, const auto& really) {
        const std::uint64_t bytes = charged_for<op>(all);
        const auto call = [&] {
            const CUresult r = really();
            if (r == CUDA_ERROR_OUT_OF_MEMORY && on_lack_of_the_driver) on_lack_of_the_driver(bytes);
            return r;
        };
        if constexpr (is_among<CUDA_MEM_ALLOC_NODE_PARAMS*, P...>)
            return quota()->add_node(argument<CUDA_MEM_ALLOC_NODE_PARAMS*>(all)->poolProps.location.id, bytes, call);
        else if constexpr (is_among<const CUmemAllocationProp*, P...>) {
            const CUmemLocation place = argument<const CUmemAllocationProp*>(all)->location;
            if (place.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;  // it counts for no client
            return quota()->create(place.id, bytes, std::get<0>(all), call);
        } else if constexpr (is_among<CUstream, P...>) {
            CUmemoryPool pool = nullptr;
            if constexpr (is_among<CUmemoryPool, P...>) pool = argument<CUmemoryPool>(all);
            else if (CUresult r = quota()->real.cuDeviceGetMemPool(&pool, quota()->current()); r != CUDA_SUCCESS)
                return r;
            return quota()->allocate_from(pool, bytes, call);
        } else
            return quota()->allocate(bytes, [&](std::uint64_t& name) {
                const CUresult r = call();
                name = r == CUDA_SUCCESS ? name_of(*std::get<0>(all)) : 0;
                return r;
            });
    }

    // The call has succeeded.
    static void note(const Arguments& all) {
        if constexpr (makes_pool)
            quota()->note_pool(*std::get<0>(all), argument<const CUmemPoolProps*>(all)->location.id);
        else if constexpr (instantiates) quota()->instantiated(argument<CUgraph>(all), *argument<CUgraphExec*>(all));
        else if constexpr (has(op, trait::maps)) quota()->mapped(std::get<0>(all), std::get<1>(all), std::get<3>(all));
        else if constexpr (has(op, trait::retains)) quota()->held(*std::get<0>(all), 1);
        else if constexpr (has(op, trait::trims)) quota()->trimmed(argument<CUdevice>(all));
        else if constexpr (has(op, trait::tells_room)) {
            if (quota()->limit() == 0) return;
            std::size_t &free = *std::get<0>(all), &total = *std::get<1>(all);
            total = std::min<std::size_t>(total, quota()->limit());
            free = std::min<std::size_t>({free, total, quota()->left(quota()->current())});
        } else if constexpr (drops) {
            const auto gone = std::get<dropped>(all);
            if constexpr (!std::is_same_v<decltype(gone), const CUdeviceptr>) ended(gone);
            else if constexpr (is_handle<std::tuple_element_t<dropped, Parameters>>) quota()->held(gone, -1);
            else if constexpr (is_among<std::size_t, P...>) quota()->unmapped(gone, argument<std::size_t>(all));
            else if constexpr (is_among<CUstream, P...>) quota()->freed_in_stream(gone);
            else quota()->freed(gone);
        }
    }
};

template <Op op> void layer(Driver& driver) {
    auto& function = driver.*entry<op>;
    using Its = Layered<op, std::remove_reference_t<decltype(function)>>;
    if constexpr (Its::is_needed)
        if (function) function = &Its::function;  // a driver may lack it
}

}  // namespace

Quota* quota() { return of_this_process; }

void enforce_quota(Driver& driver, Granter& granter, Allowance& allowance, OwnMemory own) {
    delete of_this_process;  // an earlier test's
    // Lives as long as the process: a thread may call the driver while others exit.
    of_this_process = new Quota(driver, granter, allowance, std::move(own));
#define X(name, ...) layer<Op::name>(driver);
    BARCUDA_DRIVER_ROWS(X)
#undef X
}

}  // namespace barcuda
