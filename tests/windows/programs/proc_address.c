/* SPDX-License-Identifier: Apache-2.0
 * proc_address.c: functions are found by name, and are those that were asked for
 */
#include "check.h"

int main(void) {
    CUresult(CUDAAPI * count)(int*);
    CUdriverProcAddressQueryResult status;
    void *f, *g;
    int devices = 0;
    CHECK(cuInit(0));
    CHECK(cuGetProcAddress("cuDeviceGetCount", (void**)&count, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(count && status == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(count(&devices));
    EXPECT(devices >= 1);
    CHECK(cuGetProcAddress("cuNothing", &f, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(!f && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(cuGetProcAddress("cuMemAlloc", &f, 3020, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(f != NULL);
    CHECK(cuGetProcAddress("cuStreamSynchronize", &f, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    CHECK(cuGetProcAddress("cuStreamSynchronize", &g, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(f != NULL && g != NULL && f != g);
    return passed();
}
