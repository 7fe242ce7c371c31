/* SPDX-License-Identifier: Apache-2.0
 * arrays.c: arrays, and textures and surfaces over them
 */
#include "runtime.h"

int main(void) {
    enum { width = 32, height = 16 };
    static float from[height][width], to[height][width];
    struct cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat}, its;
    struct cudaExtent size;
    struct cudaResourceDesc resource, is;
    struct cudaTextureDesc how;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    cudaArray_t array;
    unsigned flags;
    int x, y;
    memset(&resource, 0, sizeof resource);
    memset(&how, 0, sizeof how);
    CHECK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
    CHECK(cudaArrayGetInfo(&its, &size, &flags, array));
    printf("%d bits, %d x %d x %d, flags %u\n", its.x, (int)size.width, (int)size.height, (int)size.depth, flags);
    for (y = 0; y < height; ++y)
        for (x = 0; x < width; ++x) from[y][x] = (float)(x - y) / 4;
    CHECK(cudaMemcpy2DToArray(array, 0, 0, from, sizeof from[0], sizeof from[0], height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(to, sizeof to[0], array, 0, 0, sizeof to[0], height, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(from, to, sizeof from) == 0);
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    how.addressMode[0] = cudaAddressModeClamp;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, NULL));
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    CHECK(cudaGetTextureObjectResourceDesc(&is, texture));
    EXPECT(is.resType == cudaResourceTypeArray && is.res.array.array == array);
    CHECK(cudaGetTextureObjectTextureDesc(&how, texture));
    EXPECT(how.addressMode[0] == cudaAddressModeClamp);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFreeArray(array));
    return passed();
}
