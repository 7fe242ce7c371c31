/* SPDX-License-Identifier: Apache-2.0
 * libraries.c: a library of kernels and a variable
 */
#include "runtime.h"

int main(void) {
    cudaLibrary_t library;
    cudaKernel_t kernels[2], scale;
    unsigned count = 0;
    int counter = 0;
    void* variable;
    size_t bytes = 0;
    float numbers[4] = {1, 2, 3, 4}, *p, by = 2.5f;
    void* arguments[] = {&p, &by};
    CHECK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernelCount(&count, library));
    EXPECT(count == 2);
    CHECK(cudaLibraryEnumerateKernels(kernels, 2, library));
    EXPECT(kernels[0] != kernels[1]);
    EXPECT(cudaLibraryGetKernel(&scale, library, "nothing") == cudaErrorSymbolNotFound);
    CHECK(cudaLibraryGetKernel(&scale, library, "scale"));
    CHECK(cudaLibraryGetGlobal(&variable, &bytes, library, "counter"));
    EXPECT(bytes == 4);
    CHECK(cudaMemcpy(&counter, variable, bytes, cudaMemcpyDeviceToHost));
    EXPECT(counter == 5);
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMemcpy(p, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    CHECK(cudaLaunchKernel((const void*)scale, extent(1, 1, 1), extent(4, 1, 1), arguments, 0, NULL));
    CHECK(cudaMemcpy(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    printf("%g %g %g %g\n", numbers[0], numbers[1], numbers[2], numbers[3]);
    CHECK(cudaLibraryUnload(library));
    EXPECT(cudaLibraryLoadData(&library, "nothing", NULL, NULL, 0, NULL, NULL, 0) != cudaSuccess);
    return passed();
}
