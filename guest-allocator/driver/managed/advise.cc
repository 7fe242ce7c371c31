// SPDX-License-Identifier: Apache-2.0
// advise.cc: advice about ranges of managed memory, and what is known of them. All advice is kept and told again. None changes
// what a touch does: memory goes where it is touched, and nobody sees a device's writes, so that no block can be valid on both
// sides while kernels run.
#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed/arguments.h"
#include "guest-allocator/driver/managed/managed.h"

namespace barcuda::guest::managed {
namespace {

bool same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && a.id == b.id; }

// A device's number; CU_DEVICE_CPU; of none, or where the parts of a range differ, CU_DEVICE_INVALID.
int number_of(const CUmemLocation& place) {
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
    return crossing::on_host(place) ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

// What holds for all parts of a range.
struct Common {
    Said said;
    bool first = true;
    void operator()(const Said& other) {
        if (std::exchange(first, false)) return void(said = other);
        said.read_mostly &= other.read_mostly;
        if (!same(said.preferred, other.preferred)) said.preferred = Said{}.preferred;
        if (!same(said.prefetched, other.prefetched)) said.prefetched = Said{}.prefetched;
        said.accessed_by &= other.accessed_by;
        said.by_cpu &= other.by_cpu;
    }
};

}  // namespace
}  // namespace barcuda::guest::managed

using namespace barcuda::guest;

CU cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUmemLocation place) {
    using managed::Said;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    const bool places = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
    if (places && !managed::is_place(place)) return CUDA_ERROR_INVALID_DEVICE;
    const auto change = [&](Said& said) {
        switch (advice) {
            case CU_MEM_ADVISE_SET_READ_MOSTLY:
            case CU_MEM_ADVISE_UNSET_READ_MOSTLY: said.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY; break;
            case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: said.preferred = place; break;
            case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: said.preferred = Said{}.preferred; break;
            case CU_MEM_ADVISE_SET_ACCESSED_BY:
            case CU_MEM_ADVISE_UNSET_ACCESSED_BY: {
                const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
                if (place.type != CU_MEM_LOCATION_TYPE_DEVICE) said.by_cpu = set;
                else said.accessed_by = (said.accessed_by & ~(1u << place.id)) | unsigned{set} << place.id;
                break;
            }
        }
    };
    return managed::with_range(p, bytes, [&](managed::Allocation& a) {
        a.advice.say(p - a.begin, p - a.begin + bytes, change);
        return CUDA_SUCCESS;
    });
}

CU cuMemRangeGetAttribute(void* data, size_t room, CUmem_range_attribute attribute, CUdeviceptr p, size_t bytes) {
    if (!data || room == 0 || room % sizeof(int) ||
        (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && room != sizeof(int)))
        return CUDA_ERROR_INVALID_VALUE;
    managed::Common all;
    const CUresult r = managed::with_range(p, bytes, [&](const managed::Allocation& a) {
        a.advice.each(p - a.begin, p - a.begin + bytes, std::ref(all));
        return CUDA_SUCCESS;
    });
    if (r != CUDA_SUCCESS) return r;
    const managed::Said& said = all.said;
    int* const out = static_cast<int*>(data);
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *out = said.read_mostly; break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: *out = managed::number_of(said.preferred); break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *out = managed::number_of(said.prefetched); break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *out = said.preferred.type; break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *out = said.preferred.id; break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *out = said.prefetched.type; break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *out = said.prefetched.id; break;
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
            std::size_t n = 0;
            const std::size_t most = room / sizeof(int);
            if (said.by_cpu && n < most) out[n++] = CU_DEVICE_CPU;
            for (int device = 0; device < int{BARCUDA_MAX_DEVICES}; ++device)
                if (said.accessed_by >> device & 1 && n < most) out[n++] = device;
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
