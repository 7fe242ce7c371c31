/* SPDX-License-Identifier: Apache-2.0
 * mapped_addresses.c: memory without an address is mapped at a reserved one
 */
#include "check.h"

int main(void) {
    size_t unit;
    int number = 0;
    CUdeviceptr p;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
    const CUdevice device = begin();
    memset(&properties, 0, sizeof properties);
    memset(&access, 0, sizeof access);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&memory, unit, &properties, 0));
    CHECK(cuMemAddressReserve(&p, 2 * unit, 0, 0, 0));
    CHECK(cuMemMap(p + unit, unit, 0, memory, 0));
    CHECK(cuMemSetAccess(p + unit, unit, &access, 1));
    CHECK(cuMemsetD32(p + unit, 4711, unit / 4));
    CHECK(cuMemcpyDtoH(&number, p + 2 * unit - 4, 4));
    EXPECT(number == 4711);
    CHECK(cuMemUnmap(p + unit, unit));
    CHECK(cuMemRelease(memory));
    CHECK(cuMemAddressFree(p, 2 * unit));
    return passed();
}
