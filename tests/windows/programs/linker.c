/* SPDX-License-Identifier: Apache-2.0
 * linker.c: PTX is linked to an image, which is loaded
 */
#include "check.h"

int main(void) {
    size_t bytes;
    void* image;
    CUlinkState link;
    CUmodule module;
    CUfunction f;
    begin();
    CHECK(cuLinkCreate(0, NULL, NULL, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void*)ptx, sizeof ptx, "text", 0, NULL, NULL));
    CHECK(cuLinkComplete(link, &image, &bytes));
    EXPECT(image && bytes);
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&f, module, "add"));
    CHECK(cuLinkDestroy(link));
    return passed();
}
