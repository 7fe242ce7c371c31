/* SPDX-License-Identifier: Apache-2.0
 * textures.c: texture and surface objects are made of an array, and tell what they are
 */
#include "check.h"

int main(void) {
    CUarray array;
    CUtexObject texture;
    CUsurfObject surface;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    CUDA_RESOURCE_DESC resource, is;
    CUDA_TEXTURE_DESC how;
    begin();
    memset(&descriptor, 0, sizeof descriptor);
    memset(&resource, 0, sizeof resource);
    memset(&how, 0, sizeof how);
    descriptor.Width = descriptor.Height = 16;
    descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    descriptor.NumChannels = 4;
    descriptor.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    CHECK(cuArray3DCreate(&array, &descriptor));
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    how.filterMode = CU_TR_FILTER_MODE_POINT;
    CHECK(cuTexObjectCreate(&texture, &resource, &how, NULL));
    CHECK(cuSurfObjectCreate(&surface, &resource));
    CHECK(cuTexObjectGetResourceDesc(&is, texture));
    EXPECT(is.res.array.hArray == array);
    CHECK(cuTexObjectDestroy(texture));
    CHECK(cuSurfObjectDestroy(surface));
    CHECK(cuArrayDestroy(array));
    return passed();
}
