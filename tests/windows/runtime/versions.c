/* SPDX-License-Identifier: Apache-2.0
 * versions.c: versions, and functions of the driver by name
 */
#include "runtime.h"

int main(void) {
    int runtime = 0, driver = 0;
    void* found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    printf("runtime %d, driver %d\n", runtime, driver);
    CHECK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &found, 12000, cudaEnableDefault, &result));
    EXPECT(result == cudaDriverEntryPointSuccess && found != NULL);
    printf("%s\n",
           cudaGetErrorName(cudaGetDriverEntryPointByVersion("cuNothing", &found, 12000, cudaEnableDefault, &result)));
    printf("%d\n", (int)result);
    return passed();
}
