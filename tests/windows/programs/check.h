/* SPDX-License-Identifier: Apache-2.0
 * check.h: what the driver-API programs share. They are C, for any system: PTX is a text in them.
 */
#pragma once
#include <cuda.h>
#include <string.h>

#include "../expect.h"

#define CHECK(call) check(call, #call, __LINE__)
static inline void check(CUresult r, const char* call, int line) {
    const char* name = "?";
    if (r == CUDA_SUCCESS) return;
    cuGetErrorName(r, &name);
    printf("line %d: %s: %s (%d)\n", line, call, name, r);
    exit(1);
}

/* The first device's primary context, current. */
static inline CUdevice begin(void) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return device;
}

/* add(int *p, int n, int value): p[i] += value. scale(float *p, float by): p[i] *= by, for one block. */
static const char ptx[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 5;\n"
    ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 value) {\n"
    "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u32 %r5, [n]; setp.ge.u32 %q, %r4, %r5; @%q ret;\n"
    "  ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r4, 4; add.s64 %d3, %d1, %d2;\n"
    "  ld.param.u32 %r6, [value]; ld.global.u32 %r7, [%d3]; add.s32 %r7, %r7, %r6; st.global.u32 [%d3], %r7;\n"
    "  ret;\n}\n"
    ".visible .entry scale(.param .u64 p, .param .f32 by) {\n"
    "  .reg .b32 %r<3>; .reg .f32 %f<4>; .reg .b64 %d<4>;\n"
    "  mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4;\n"
    "  add.s64 %d3, %d1, %d2; ld.param.f32 %f1, [by]; ld.global.f32 %f2, [%d3]; mul.f32 %f3, %f1, %f2;\n"
    "  st.global.f32 [%d3], %f3; ret;\n}\n";

static inline CUfunction function(CUmodule* module, const char* name) {
    CUfunction f;
    CHECK(cuModuleLoadData(module, ptx));
    CHECK(cuModuleGetFunction(&f, *module, name));
    return f;
}
static inline void launch_add(CUfunction add, CUdeviceptr p, unsigned n, int value, CUstream stream) {
    void* arguments[] = {&p, &n, &value};
    CHECK(cuLaunchKernel(add, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
}
static inline int passed(void) {
    printf("passed\n");
    return 0;
}
