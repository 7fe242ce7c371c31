// SPDX-License-Identifier: Apache-2.0
// advise.cc: advice about ranges of managed memory, and their attributes. All advice is kept and returned. None changes
// what a touch does: memory migrates to the side that touches it. This process does not see a device's writes, so no
// block can be valid on both sides while kernels run.
#include <algorithm>

#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/arguments.h"

namespace barcuda::guest::managed {
namespace {

bool same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && a.id == b.id; }

// A device's number, or CU_DEVICE_CPU. CU_DEVICE_INVALID: none, or the parts of a range differ.
int number_of(const CUmemLocation& place) {
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
    return crossing::on_host(place) ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

// The hints that all parts of a range have in common.
struct Common {
    Hints hints;
    bool first = true;
    void operator()(const Hints& other) {
        if (std::exchange(first, false)) return void(hints = other);
        hints.read_mostly &= other.read_mostly;
        if (!same(hints.preferred, other.preferred)) hints.preferred = Hints{}.preferred;
        if (!same(hints.prefetched, other.prefetched)) hints.prefetched = Hints{}.prefetched;
        hints.accessed_by &= other.accessed_by;
        hints.by_cpu &= other.by_cpu;
    }
};

}  // namespace
}  // namespace barcuda::guest::managed

using namespace barcuda::guest;

CU cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUmemLocation place) {
    using managed::Hints;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    const bool known =
        place.type >= CU_MEM_LOCATION_TYPE_DEVICE && place.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    const bool nodes = place.type > CU_MEM_LOCATION_TYPE_HOST;  // of which none has a table of pages of its own
    if (!known || (nodes && advice >= CU_MEM_ADVISE_SET_ACCESSED_BY)) return CUDA_ERROR_INVALID_VALUE;
    const bool places = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
    if (places && !managed::is_place(place)) return CUDA_ERROR_INVALID_DEVICE;
    const auto change = [&](Hints& hints) {
        switch (advice) {
            case CU_MEM_ADVISE_SET_READ_MOSTLY:
            case CU_MEM_ADVISE_UNSET_READ_MOSTLY: hints.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY; break;
            case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: hints.preferred = place; break;
            case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: hints.preferred = Hints{}.preferred; break;
            case CU_MEM_ADVISE_SET_ACCESSED_BY:
            case CU_MEM_ADVISE_UNSET_ACCESSED_BY: {
                const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
                if (place.type != CU_MEM_LOCATION_TYPE_DEVICE) hints.by_cpu = set;
                else hints.accessed_by = (hints.accessed_by & ~(1u << place.id)) | unsigned{set} << place.id;
                break;
            }
        }
    };
    return managed::with_allocation(p, bytes, [&](managed::Allocation& a) {
        a.advice.set(p - a.begin, p - a.begin + bytes, change);
        return CUDA_SUCCESS;
    });
}

CU cuMemRangeGetAttribute(void* data, size_t room, CUmem_range_attribute attribute, CUdeviceptr p, size_t bytes) {
    if (!data || room == 0 || room % sizeof(int) ||
        (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && room != sizeof(int)))
        return CUDA_ERROR_INVALID_VALUE;
    managed::Common all;
    const CUresult r = managed::with_allocation(p, bytes, [&](const managed::Allocation& a) {
        a.advice.each(p - a.begin, p - a.begin + bytes, std::ref(all));
        return CUDA_SUCCESS;
    });
    if (r != CUDA_SUCCESS) return r;
    const managed::Hints& hints = all.hints;
    int* const out = static_cast<int*>(data);
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *out = hints.read_mostly; break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: *out = managed::number_of(hints.preferred); break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *out = managed::number_of(hints.prefetched); break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *out = hints.preferred.type; break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *out = hints.preferred.id; break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *out = hints.prefetched.type; break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *out = hints.prefetched.id; break;
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
            std::size_t n = 0;
            const std::size_t most = room / sizeof(int);
            if (hints.by_cpu && n < most) out[n++] = CU_DEVICE_CPU;
            for (int device = 0; device < int{BARCUDA_MAX_DEVICES}; ++device)
                if (hints.accessed_by >> device & 1 && n < most) out[n++] = device;
            std::fill(out + n, out + most, CU_DEVICE_INVALID);
            break;
        }
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
CU cuMemRangeGetAttributes(void** data, size_t* rooms, CUmem_range_attribute* attributes, size_t count, CUdeviceptr p,
                           size_t bytes) {
    if (!data || !rooms || !attributes || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (CUresult r = cuMemRangeGetAttribute(data[i], rooms[i], attributes[i], p, bytes); r != CUDA_SUCCESS)
            return r;
    return CUDA_SUCCESS;
}
