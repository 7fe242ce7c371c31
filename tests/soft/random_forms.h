// SPDX-License-Identifier: Apache-2.0
// random_forms.h: what random kernels are made of.
//
// In a form, $x is a variable of the type with that letter, $U an expression of type u, $n a number, $? a condition,
// [[a|b|c]] one of these (they may have places of their own), [[3..7]] a number from that range.
#pragma once
#include <string_view>
#include <vector>

using Forms = std::vector<std::string_view>;

struct Type {
    char letter;
    unsigned variables;  // letter0, letter1, ...
    Forms forms;
};

inline const std::vector<Type> types = {
    {'u',
     4,
     {"$U + $U",
      "$U - $U",
      "$U * $U",
      "$U ^ $U",
      "$U & $U",
      "$U | ~$U",
      "$U << ($U & 31)",
      "$U >> ($U & 31)",
      "$U / ($U | 1)",
      "$U % ($U | 1)",
      "__umulhi($U, $U)",
      "(u32)__popc($U)",
      "(u32)__clz($U)",
      "__brev($U)",
      "__byte_perm($U, $U, $u)",
      "__funnelshift_[[l|r|lc|rc]]($U, $U, $u)",
      "(u32)__dp4a((int)$U, (int)$U, $i)",
      "__dp4a($U, $U, $u)",
      "max($U, $U)",
      "min($U, $U)",
      "(u32)min((int)$U, (int)$U)",
      "(u32)max((int)$U, (int)$U)",
      "(u32)($w >> [[0..33]])",
      "$U < $U ? $u : $u",
      "local[$U & 7]",
      "__usad($U, $U, $u)",
      "__sad((int)$U, (int)$U, $u)",
      "(u32)(unsigned char)$U",
      "(u32)(short)$U",
      "__v[[add|sub]][[2|4]]($U, $U)",
      "__v[[max|min]][[u|s]][[2|4]]($U, $U)",
      "__vabsdiffu4($U, $U)",
      "__vsadu4($U, $U)",
      "__vavgu4($U, $U)",
      "__vcmpgtu2($U, $U)",
      "__vadd[[us|ss]]4($U, $U)",
      "__umul24($U, $U)",
      "(u32)__popcll($w)",
      "(u32)__clzll($x)",
      "(u32)__float2uint_[[rz|rn|rd|ru]]($f)",
      "__double2uint_[[rz|rn|rd|ru]]($d)",
      "bfe_[[u|s]]($U, $u, $u)",
      "bfi($U, $U, $u, $u)",
      "lop3_[[16|96|1b|e8|ca]]($U, $U, $u)",
      "prmt_[[f4e|b4e|rc8|ecl|ecr|rc16]]($U, $U, $u)",
      "bfind_[[u|s|shift]]($U)",
      "bmsk_[[clamp|wrap]]($u, $u)",
      "szext_[[u|s]]($U, $u)",
      "fns($U, $u & 31, $i)",
      "slct($u, $u, $i)",
      "dp2a_[[lo|hi]]($u, $u, $u)",
      "carry($u, $u, $u)",
      "sat8_[[u|s]]($i)",
      "sat16_[[u|s]]($i)",
      "table[$U & 15]",
      "in[$U % 384]",
      "(u32)bytes[$u & 15]",
      "(u32)words[$u & 7]",
      "(u32)$b",
      "(u32)$q",
      "(u32)__half_as_ushort(__int2half_rn($i & 1023)) + 1u",
      "__hlt($h, $h) ? $u : $U"}},
    {'i',
     2,
     {"(int)$U",
      "$i / ((int)($u & 0xFFFF) | 1)",
      "$i % ((int)($u & 0xFF) | 1)",
      "$i >> ($u & 31)",
      "__mulhi($i, $i)",
      "__float2int_[[rz|rn|rd|ru]]($f)",
      "__double2int_[[rz|rn|rd|ru]]($d)",
      "(int)((u32)$i * 7u) % 1000",
      "__ffs($i)",
      "__mul24($i, $i)",
      "__hadd($i, $i)",
      "__rhadd($i, $i)",
      "$c * $e",
      "(int)$c",
      "(int)$e",
      "__half2int_[[rz|rn|rd|ru]]($h)",
      "max($i, (int)$e)",
      "min($i, (int)$c)",
      "$f < $f ? $i : (int)$u",
      "(int)bytes[$u & 15] - 40",
      "__bfloat162int_rz($g)",
      "$i < 0 ? ~$i : $i"}},
    {'w',
     2,
     {"$w + ((u64)$u << 17)",
      "$w * $w",
      "$w >> ($u & 63)",
      "$w << ($u & 63)",
      "$w / ((u64)$u | 1)",
      "$w % ((u64)$q | 1)",
      "(u64)$u * $u",
      "__umul64hi($w, $w)",
      "$w ^ (u64)__double2ll_[[rz|rn|rd|ru]]($d)",
      "(u64)((unsigned __int128)$w * $w >> [[1..100]])",
      "(u64)(((unsigned __int128)$w << 64 | $w) + ((unsigned __int128)$u << 60) >> [[1..64]])",
      "min($w, $w)",
      "max($w, $w)",
      "__brevll($w)",
      "bfe_u64($w, $u, $u)",
      "bfi64($w, $w, $u, $u)",
      "(u64)$x",
      "$w & ~$w | $u",
      "__float2ull_[[rz|rn|rd|ru]]($f)",
      "__double2ull_[[rz|rn|rd|ru]]($d)",
      "$u < $u ? $w : $w"}},
    {'x',
     2,
     {"(s64)((u64)$x + $w)", "(s64)((u64)$x * $w)", "$x / (s64)(($u & 0xFFFFF) | 1)", "$x % (s64)($q | 1)",
      "$x >> ($u & 63)", "(s64)$i * $i", "__mul64hi($x, $x)", "min($x, (s64)$w)", "max($x, (s64)$i)",
      "(s64)__ffsll($x)", "__float2ll_[[rz|rn|rd|ru]]($f)", "__double2ll_[[rz|rn|rd|ru]]($d)", "bfe_s64($x, $u, $u)",
      "(s64)$i - $q", "$x < 0 ? ~$x : $x"}},
    {'b',
     2,
     {"(u8)($b * 7 + $c)", "(u8)($U >> 3)", "(u8)($b / ($q | 1))", "(u8)($b % ($b | 1))", "(u8)max((int)$b, (int)$c)",
      "(u8)sat8_u($i)", "bytes[$u & 15]", "(u8)($b << ($u & 7))", "(u8)($q >> ($u & 15))"}},
    {'c',
     2,
     {"(s8)($c * 3 - $e)", "(s8)(($c >> 1) ^ $b)", "(s8)($e / ($b | 1))", "(s8)min((int)$c, (int)$e)", "(s8)sat8_s($i)",
      "(s8)$U", "(s8)bytes[$u & 15]", "(s8)($c % ($b | 1))"}},
    {'q',
     2,
     {"(u16)((u32)$q * $q >> 3)", "(u16)($q % ($b | 1))", "(u16)max((int)$q, $i & 0xFFFF)", "(u16)$U", "words[$u & 7]",
      "(u16)($q / ($q | 1))", "(u16)sat16_u($i)", "(u16)__half2uint_rz(__habs($h))", "(u16)(~$q & $e)"}},
    {'e',
     2,
     {"(s16)($e * $c)", "(s16)($e / ($b | 1))", "(s16)__float2int_rn($f)", "(s16)min((int)$e, (int)$c)",
      "(s16)($e >> ($u & 15))", "(s16)sat16_s($i)", "(s16)words[$u & 7]", "(s16)__half2short_rn($h)", "(s16)$U"}},
    {'f',
     3,
     {"$f + $f",
      "$f * $f",
      "$f - $f * 0.5f",
      "fmaf($f, $f, $f)",
      "$f / (fabsf($f) + 1.0f)",
      "sqrtf(fabsf($f))",
      "[[fminf|fmaxf]]($f, $f)",
      "(float)[[$i|$u|$w|$x|$b|$e]]",
      "[[floorf|ceilf|truncf|rintf|roundf]]($f)",
      "__f[[add|mul|sub]]_[[rn|rz|ru|rd]]($f, $f)",
      "__fmaf_[[rn|rz|ru|rd]]($f, $f, $f)",
      "__fdiv_[[rn|rz|ru|rd]]($f, fabsf($f) + 1.0f)",
      "__fsqrt_[[rn|rz|ru|rd]](fabsf($f))",
      "__frcp_[[rn|rz|ru|rd]](fabsf($f) + 0.5f)",
      "__saturatef($f)",
      "-$f",
      "fabsf($f)",
      "copysignf($f, (float)$i)",
      "__half2float($h)",
      "__bfloat162float($g)",
      "__double2float_[[rn|rz|ru|rd]]($d)",
      "__int2float_[[rn|rz|ru|rd]]($i)",
      "__uint2float_[[rn|rz|ru|rd]]($u)",
      "__ull2float_[[rn|rz|ru|rd]]($w)",
      "__ll2float_[[rn|rz|ru|rd]]($x)",
      "__uint_as_float(0x3F000000u + ($u & 0x7FFFFF))",
      "$? ? $f : $f"}},
    {'d',
     2,
     {"$d + $d", "$d * 0.5 - $d", "fma($d, $d, 1.0)", "$d / (fabs($d) + 1.0)", "sqrt(fabs($d))",
      "(double)[[$f|$i|$u|$w|$x|$q]]", "__d[[add|mul|sub]]_[[rn|rz|ru|rd]]($d, $d)", "[[fmin|fmax]]($d, $d)",
      "__fma_[[rn|rz|ru|rd]]($d, $d, $d)", "__ddiv_[[rn|rz|ru|rd]]($d, fabs($d) + 1.0)",
      "__dsqrt_[[rn|rz|ru|rd]](fabs($d))", "__drcp_[[rn|rz|ru|rd]](fabs($d) + 0.5)", "__ll2double_[[rn|rz|ru|rd]]($x)",
      "__ull2double_[[rn|rz|ru|rd]]($w)", "[[floor|ceil|trunc|rint]]($d)", "-$d",
      "__hiloint2double(0x3FF00000 + ($i & 0xFFFFF), $i)", "$? ? $d : $d"}},
    {'h',
     2,
     {"__hadd($h, $h)", "__hsub($h, $h)", "__hmul($h, $h)", "__hfma($h, $h, $h)", "__hfma_relu($h, $h, $h)",
      "__h[[add|sub|mul]]_sat($h, $h)", "__float2half_[[rn|rz|rd|ru]]($f)", "__double2half($d)",
      "__int2half_[[rn|rz|rd|ru]]($i)", "__ushort2half_rn($q)", "__h[[max|min]]($h, $h)",
      "h[[floor|ceil|rint|trunc]]($h)", "__hneg($h)", "__habs($h)", "__[[low|high]]2half($z)"}},
    {'z',
     2,
     {"__hadd2($z, $z)", "__hmul2($z, $z)", "__hfma2($z, $z, $z)", "__h[[max|min]]2($z, $z)", "__halves2half2($h, $h)",
      "__floats2half2_rn($f, $f)", "__lowhigh2highlow($z)", "__hneg2($z)", "__hgt2($z, $z)"}},
    {'g',
     2,
     {"__hadd($g, $g)", "__hmul($g, $g)", "__hfma($g, $g, $g)", "__float2bfloat16_[[rn|rz|rd|ru]]($f)",
      "__h[[max|min]]($g, $g)", "__hneg($g)", "__habs($g)", "__int2bfloat16_rn($i)"}},
};

inline const Forms conditions = {
    "$u [[<|>|==|!=|<=]] $u",
    "($u & [[1..15]]) [[==|!=]] 0",
    "$i [[<|>=]] [[-100..100]]",
    "$f [[<|>=|!=|==]] $f",
    "lane [[<|>]] [[0..31]]",
    "$d [[<|<=|>]] $d",
    "$w [[<|>=]] $w",
    "$x [[<|>]] $x",
    "$e [[<|>=]] $c",
    "$u < $n && $i > $e",
    "$b > $b || $? ",
    "__hge($h, $h)",
};

// By each thread alone: its own places in local, shared and global memory.
inline const Forms alone_forms = {
    "local[$u & 7] [[=|+=|^=]] $U;",
    "bytes[$u & 15] [[=|+=|^=]] (u8)$U;",
    "words[$u & 7] [[=|-=|^=]] (u16)$U;",
    "*(uint2*)&local[$u & 6] = make_uint2($u, $u);",
    "{ const uint4 v = *(const uint4*)&local[$u & 4]; $u ^= v.x + 3 * v.y ^ v.z - v.w; }",
    "$u ^= atomic[[Add|Sub|Exch|Min|Max|And|Or|Xor|Inc|Dec]][[|_block|_system]](&s[t], $U);",
    "$u ^= atomicCAS(&s[t], $u, $u);",
    "$i ^= atomic[[Min|Max|Add]]((int*)&s[t], $i);",
    "$w ^= atomic[[Add|Exch|Min|Max|And|Or|Xor]](&sw[t], $w);",
    "$w ^= atomicCAS(&sw[t], $w, $w);",
    "$x ^= atomic[[Min|Max]]((s64*)&sw[t], $x);",
    "$w ^= atomic[[Add|Exch|Min|Max|And|Or|Xor]][[|_system]](&mine[1], $w);",
    "$w ^= atomicCAS(&mine[1], $w, $w);",
    "$f = atomicAdd(&sf[t], (float)($u & 1023));",
    "$f = atomicAdd((float*)&mine[3], (float)($u & 1023));",
    "$d = atomicAdd((double*)&mine[2], (double)$i);",
    "$u ^= atomicExch((u32*)&mine[1], $u);",
    "{ const u32* p = $? ? &s[t] : &in[$u % 384]; $u += *p; }",
    "{ u32* p = $? ? &s[t] : &local[$u & 7]; *p ^= $U; }",
    "{ u64* p = $? ? &sw[t] : &mine[1]; *p += $w; $w = *p >> 3; }",
    "$u = call[[0|1|2]]($u, $i);",
    "$u = (*calls[$u % 3])($u, $i);",
    "{ const Pair p = paired(Pair{$u, $d, $b}, $i); $u = p.u, $d = p.d, $b = p.b; }",
    "$w = w[[0|1]] ^ __ldg((const u64*)in + $u % 192);",
    "__threadfence[[|_block|_system]]();",
};

// By a whole warp.
inline const Forms warp_forms = {
    "$u ^= __shfl_xor_sync(~0u, $u, [[1..31]], [[8|16|32]]);",
    "$u += __shfl_sync(~0u, $u, $i, [[4|8|16|32]]);",
    "$f = __shfl_[[up|down]]_sync(~0u, $f, [[0..17]], [[8|16|32]]);",
    "$w ^= __shfl_[[up|down|xor]]_sync(~0u, $w, [[0..17]], [[8|16|32]]);",
    "$d = __shfl_sync(~0u, $d, (int)($u & 31));",
    "$x = __shfl_[[up|down]]_sync(~0u, $x, $u & 31);",
    "$h = __shfl_[[up|down|xor]]_sync(~0u, $h, [[0..31]]);",
    "$z = __shfl_sync(~0u, $z, (int)$u);",
    "$u ^= __ballot_sync(~0u, $?);",
    "if (__[[any|all|uni]]_sync(~0u, $?)) $u += $n;",
    "$u += __match_any_sync(~0u, [[$u & 7|$w % 5|$i >> 29|$b & 3]]);",
    "{ int all; $u ^= __match_all_sync(~0u, [[$u & 1|$w >> 60|t / 32|$b & 1]], &all); $i ^= all; }",
    "$u += __reduce_[[add|min|max|and|or|xor]]_sync(~0u, $u);",
    "$i ^= __reduce_[[add|min|max]]_sync(~0u, $i);",
    "{ const bool p = $?; const u32 m = __ballot_sync(~0u, p); if (p) $u += __shfl_sync(m, $u, __ffs(m) - 1); else $u "
    "^= "
    "__reduce_[[add|min|max|xor]]_sync(~m, $u); __syncwarp(); }",
    "{ const u32 m = __match_any_sync(~0u, $u & [[1|3]]); $u += __reduce_add_sync(m, $u); $u ^= __shfl_sync(m, $u, 31 "
    "- "
    "__clz(m)); __syncwarp(); }",
    "{ const bool p = $?; const u32 m = __ballot_sync(~0u, p); if (p) { if (__[[any|all]]_sync(m, $?)) $u += "
    "__popc(__ballot_sync(m, $?)); } __syncwarp(); }",
    "__syncwarp(); s[t] = $u; __syncwarp(); $u += s[t ^ [[1..31]]]; __syncwarp();",
    "if ($?) atomicAdd((u32*)counters, $u);",
    "if ($?) atomicMax((u32*)counters + 1, $u);",
    "atomicMin((u32*)counters + 2, $U);",
    "atomicXor((u32*)counters + 3, $u);",
    "if ($?) atomicOr((u32*)counters + 4, $u);",
    "if ($?) atomicAnd((u32*)counters + 5, $u | $n);",
    "if ($?) atomicInc((u32*)counters + 6, 100);",
    "if ($?) atomicDec((u32*)counters + 7, 1000);",
    "if ($?) atomicAdd(counters + 4, $w);",
    "atomicMax(counters + 5, $w);",
    "atomicMin((s64*)counters + 6, $x);",
    "atomicXor(counters + 7, $w);",
    "atomicAdd((float*)(counters + 8), (float)($u & 255));",
    "if ($?) atomicAdd((double*)(counters + 9), (double)$i);",
    "atomicMax((int*)(counters + 10), $i);",
    "atomicMin((int*)(counters + 10) + 1, $i);",
    "{ asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;\" :: \"r\"((u32)__cvta_generic_to_"
    "shared(&s[t])), \"l\"(&in[$u % 384]) : \"memory\"); $u ^= s[t]; }",
};

// By a whole block. Everything that threads exchange lies between barriers.
inline const Forms block_forms = {
    "__syncthreads(); s[t] = $u; __syncthreads(); $u += s[(t * [[1|3|5|7|9]] + [[0..63]]) % n]; __syncthreads();",
    "__syncthreads(); sw[t] = $w; __syncthreads(); $w ^= sw[n - 1 - t]; __syncthreads();",
    "__syncthreads(); s[t] = $u; __syncthreads(); { const uint4 v = ((const uint4*)s)[$u % (n / 4)]; $u ^= v.x + 5 * "
    "v.y ^ "
    "v.z - v.w; } __syncthreads();",
    "__syncthreads(); ((u8*)s)[t] = $b; __syncthreads(); $u += s[t / 4]; __syncthreads(); s[t] = t; __syncthreads();",
    "__syncthreads(); if (t < n / 2) s[t] = s[t + n / 2] + $u; __syncthreads(); $u ^= s[0]; __syncthreads();",
    "atomic[[Add|Max|Min|Xor|Or]](&cell[$u & 3], $i & 0xFFFF); __syncthreads(); $u += (u32)cell[t & 3]; "
    "__syncthreads(); "
    "if (t < 4) cell[t] = 0; __syncthreads();",
    "atomicAdd(&cells[$u & 1], __floats2half2_rn((float)($u & 15), (float)($u & 7))); __syncthreads(); $z = cells[t & "
    "1]; "
    "__syncthreads(); if (t < 2) cells[t] = __float2half2_rn(0); __syncthreads();",
    "if ($?) atomicCAS((u32*)&cell[0], 0u, 77u); __syncthreads(); $u ^= (u32)cell[0]; __syncthreads(); if (t == 0) "
    "cell[0] = 0; __syncthreads();",
    "$u += (u32)__syncthreads_[[count|and|or]]($?);",
};

inline constexpr const char* prelude = R"(// Generated by tests/soft/random_kernels.cc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
__device__ u64 mix(u64 r, u64 x) { r ^= x + 0x9E3779B97F4A7C15ull + (r << 6) + (r >> 2); return r * 0xBF58476D1CE4E5B9ull; }
__device__ u64 bits(float x) { return x != x ? 1 : __float_as_uint(x); }
__device__ u64 bits(double x) { return x != x ? 1 : (u64)__double_as_longlong(x); }
__device__ u64 bits(__half x) { return __hisnan(x) ? 1 : __half_as_ushort(x); }
__device__ u64 bits(__nv_bfloat16 x) { return __hisnan(x) ? 1 : __bfloat16_as_ushort(x); }
__device__ u64 bits(__half2 x) { return bits(__low2half(x)) << 16 | bits(__high2half(x)); }
__noinline__ __device__ u32 call0(u32 a, int b) { return a < 2 ? a + b : call0(a >> 3, (int)(3u * (u32)b)) ^ a; }
__noinline__ __device__ u32 call1(u32 a, int b) { u32 x[6]; for (int k = 0; k < 6; ++k) x[k] = a * k + b; return x[a % 6] + x[(u32)b % 6]; }
__noinline__ __device__ u32 call2(u32 a, int b) { return __popc(a) * 1000u + (b > 0 ? call1(a, b) : call0(a, b)); }
__device__ u32 (*const calls[])(u32, int) = {call0, call1, call2};
struct Pair { u32 u; double d; u8 b; };
__noinline__ __device__ Pair paired(Pair p, int i) { return Pair{p.u ^ (u32)i, p.d + p.b, (u8)(p.b + p.u)}; }
__constant__ u32 table[16] = {1, 0x80000000, 3, 0xFFFFFFFF, 5, 77, 0x12345678, 9, 0x7FFFFFFF, 11, 0xDEADBEEF, 13, 0, 15, 0xFF00FF, 17};
#define ONE(name, text) __device__ u32 name(u32 a) { u32 d; asm(text " %0, %1;" : "=r"(d) : "r"(a)); return d; }
#define TWO(name, text) __device__ u32 name(u32 a, u32 b) { u32 d; asm(text " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
#define THREE(name, text, more) __device__ u32 name(u32 a, u32 b, u32 c) { u32 d; asm(text " %0, %1, %2, %3" more ";" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
ONE(bfind_u, "bfind.u32") ONE(bfind_s, "bfind.s32") ONE(bfind_shift, "bfind.shiftamt.u32")
TWO(bmsk_clamp, "bmsk.clamp.b32") TWO(bmsk_wrap, "bmsk.wrap.b32") TWO(szext_u, "szext.wrap.u32") TWO(szext_s, "szext.clamp.s32")
THREE(bfe_u, "bfe.u32", "") THREE(bfe_s, "bfe.s32", "")
THREE(lop3_16, "lop3.b32", ", 0x16") THREE(lop3_96, "lop3.b32", ", 0x96") THREE(lop3_1b, "lop3.b32", ", 0x1B") THREE(lop3_e8, "lop3.b32", ", 0xE8") THREE(lop3_ca, "lop3.b32", ", 0xCA")
THREE(prmt_f4e, "prmt.b32.f4e", "") THREE(prmt_b4e, "prmt.b32.b4e", "") THREE(prmt_rc8, "prmt.b32.rc8", "") THREE(prmt_ecl, "prmt.b32.ecl", "") THREE(prmt_ecr, "prmt.b32.ecr", "") THREE(prmt_rc16, "prmt.b32.rc16", "")
THREE(slct, "slct.u32.s32", "") THREE(dp2a_lo, "dp2a.lo.u32.u32", "") THREE(dp2a_hi, "dp2a.hi.u32.u32", "")
__device__ u32 bfi(u32 a, u32 b, u32 at, u32 n) { u32 d; asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(at), "r"(n)); return d; }
__device__ u64 bfi64(u64 a, u64 b, u32 at, u32 n) { u64 d; asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(d) : "l"(a), "l"(b), "r"(at), "r"(n)); return d; }
__device__ u64 bfe_u64(u64 a, u32 at, u32 n) { u64 d; asm("bfe.u64 %0, %1, %2, %3;" : "=l"(d) : "l"(a), "r"(at), "r"(n)); return d; }
__device__ s64 bfe_s64(s64 a, u32 at, u32 n) { s64 d; asm("bfe.s64 %0, %1, %2, %3;" : "=l"(d) : "l"(a), "r"(at), "r"(n)); return d; }
__device__ u32 fns(u32 a, u32 from, int n) { u32 d; asm("fns.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(from), "r"((n & 15) - 7)); return d; }
__device__ u32 carry(u32 a, u32 b, u32 c) { u32 d, e; asm("{ add.cc.u32 %0, %2, %3; addc.cc.u32 %1, %4, %2; madc.lo.u32 %0, %3, %4, %0; sub.cc.u32 %1, %1, %2; subc.u32 %0, %0, %4; }" : "=&r"(d), "=&r"(e) : "r"(a), "r"(b), "r"(c)); return d ^ e; }
__device__ u32 sat8_u(int a) { u32 d; asm("{ .reg .u8 x; cvt.sat.u8.s32 x, %1; cvt.u32.u8 %0, x; }" : "=r"(d) : "r"(a)); return d; }
__device__ u32 sat8_s(int a) { u32 d; asm("{ .reg .s8 x; cvt.sat.s8.s32 x, %1; cvt.s32.s8 %0, x; }" : "=r"(d) : "r"(a)); return d; }
__device__ u32 sat16_u(int a) { u16 d; asm("cvt.sat.u16.s32 %0, %1;" : "=h"(d) : "r"(a)); return d; }
__device__ u32 sat16_s(int a) { s16 d; asm("cvt.sat.s16.s32 %0, %1;" : "=h"(d) : "r"(a)); return (u32)(int)d; }
)";

// Between them, the statements.
inline constexpr const char* first = R"((const u32* in, u64* out, u64* counters) {
    __shared__ __align__(16) u32 s[128];
    __shared__ u64 sw[128];
    __shared__ float sf[128];
    __shared__ int cell[4];
    __shared__ __half2 cells[2];
    const u32 t = threadIdx.x, lane = t & 31, n = blockDim.x;
    u64* const mine = out + (blockIdx.x * 128 + t) * 4;
    __align__(16) u32 local[8];
    u16 words[8];
    u8 bytes[16];
    u32 u0 = in[t], u1 = in[t + 128], u2 = t * 2654435761u, u3 = blockIdx.x;
    int i0 = (int)in[t + 256], i1 = (int)t - 40;
    u64 w0 = (u64)u0 << 32 | u1, w1 = u2;
    s64 x0 = (s64)w0, x1 = i1;
    u8 b0 = (u8)u0, b1 = (u8)t;
    s8 c0 = (s8)u1, c1 = (s8)lane;
    u16 q0 = (u16)u0, q1 = 40000;
    s16 e0 = (s16)u1, e1 = (s16)(i1 * 100);
    float f0 = (int)(u0 >> 8) * 0.001f, f1 = (float)i1, f2 = 1.5f;
    double d0 = i0 * 0.125, d1 = t + 0.5;
    __half h0 = __int2half_rn((int)(u1 & 255)), h1 = __float2half(0.75f);
    __half2 z0 = __floats2half2_rn(f1, 0.1f), z1 = __float2half2_rn(-2.0f);
    __nv_bfloat16 g0 = __float2bfloat16_rn(f0), g1 = __float2bfloat16_rn(3.0f);
    for (int k = 0; k < 8; ++k) local[k] = u0 + k * u1, words[k] = (u16)(u1 >> k);
    for (int k = 0; k < 16; ++k) bytes[k] = (u8)(u0 >> k);
    if (t < 4) cell[t] = 0;
    if (t < 2) cells[t] = __float2half2_rn(0);
    s[t] = u0, sw[t] = w0, sf[t] = 1;
    __syncthreads();
)";
inline constexpr const char* last = R"(    __syncthreads();
    u64 r = 0;
    r = mix(r, u0), r = mix(r, u1), r = mix(r, u2), r = mix(r, u3), r = mix(r, i0), r = mix(r, i1), r = mix(r, w0), r = mix(r, w1);
    r = mix(r, x0), r = mix(r, x1), r = mix(r, b0), r = mix(r, b1), r = mix(r, c0), r = mix(r, c1), r = mix(r, q0), r = mix(r, q1);
    r = mix(r, e0), r = mix(r, e1), r = mix(r, bits(f0)), r = mix(r, bits(f1)), r = mix(r, bits(f2)), r = mix(r, bits(d0)), r = mix(r, bits(d1));
    r = mix(r, bits(h0)), r = mix(r, bits(h1)), r = mix(r, bits(z0)), r = mix(r, bits(z1)), r = mix(r, bits(g0)), r = mix(r, bits(g1));
    r = mix(r, s[t]), r = mix(r, sw[t]), r = mix(r, bits(sf[t])), r = mix(r, (u32)cell[t & 3]);
    for (int k = 0; k < 8; ++k) r = mix(r, local[k] ^ words[k]);
    for (int k = 0; k < 16; ++k) r = mix(r, bytes[k]);
    mine[0] = r;
}
)";

// Words 2, 5 and 10 begin where their minimum or conjunction can fall.
inline constexpr const char* variables = R"(__device__ u64 output[2 * 128 * 4];
__device__ u64 counters[12] = {0, 0xFFFFFFFF, 0xFFFFFFFF00000000, 5000ull << 32, 0, 0, 0, 0, 0, 0, 0x7FFFFFFF00000000, 0};
)";
