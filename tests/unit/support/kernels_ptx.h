// SPDX-License-Identifier: Apache-2.0
// kernels_ptx.h: a module for tests: `store` writes a number into each word of a row, `bump` counts its threads in the
// variable `counter`.
#pragma once

namespace barcuda {

constexpr char kernels_ptx[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .entry store(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r1;
    ret;
}
.visible .entry bump()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, counter;
    atom.global.add.u32 %r1, [%rd1], 1;
    ret;
}
)";

}  // namespace barcuda
