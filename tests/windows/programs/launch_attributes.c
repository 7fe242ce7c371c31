/* SPDX-License-Identifier: Apache-2.0
 * launch_attributes.c: a launch with attributes
 */
#include "check.h"

int main(void) {
    int number = 0, value = 8;
    unsigned n = 1;
    CUmodule module;
    CUfunction f;
    CUdeviceptr p;
    CUstream stream;
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    void* arguments[] = {&p, &n, &value};
    begin();
    f = function(&module, "add");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 1, 1));
    CHECK(cuCtxSynchronize());
    memset(&config, 0, sizeof config);
    memset(&attribute, 0, sizeof attribute);
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, f, arguments, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 9);
    return passed();
}
