// SPDX-License-Identifier: Apache-2.0
// texture_lanes.cc: a warp that samples one texture, all lanes at once. The same arithmetic as sample()'s in
// ../texture.cc, as loops over lanes that compilers vectorize: for lines and planes of one level, of f32 or bytes, with
// border or clamp addressing. All others are sampled a lane at a time.
#include "soft-gpu/ptx/texture_lanes.h"

namespace barcuda::soft {
namespace {

using Border = TextureObject::Border;
using Format = TextureObject::Format;
using u32 = std::uint32_t;

struct Along {  // one direction: two texels for each lane, -1 is the border, and their weights
    std::int32_t at[2][lane_count];
    float weight[2][lane_count];
};

struct Axis {
    double size, scale;  // scale: of a coordinate
    bool border;
};

[[gnu::always_inline]] inline double bounded(double x) {
    x = x < -1e15 ? -1e15 : x;
    x = x > 1e15 ? 1e15 : x;
    return x != x ? 0 : x;
}
// For a whole number from -2 to size + 1.
[[gnu::always_inline]] inline std::int32_t place(double x, double size, bool border) {
    const double inside = x < 0 ? 0 : x > size - 1 ? size - 1 : x;
    return static_cast<std::int32_t>(border && inside != x ? -1 : inside);
}

[[gnu::always_inline]] inline void find_nearest(Along& a, const float* x, const Axis& axis) {
    for (int i = 0; i < lane_count; ++i) {
        double whole = __builtin_floor(bounded(static_cast<double>(x[i]) * axis.scale));
        whole = whole < -2 ? -2 : whole > axis.size ? axis.size : whole;
        a.at[0][i] = place(whole, axis.size, axis.border);
    }
}

[[gnu::always_inline]] inline void find_two(Along& a, const float* x, const Axis& axis) {
    for (int i = 0; i < lane_count; ++i) {
        const double fixed = __builtin_floor(bounded(static_cast<double>(x[i]) * axis.scale - 0.5) * 256 + 0.5);
        double whole = __builtin_floor(fixed / 256);
        const auto part = static_cast<float>((fixed - whole * 256) / 256);
        whole = whole < -2 ? -2 : whole > axis.size ? axis.size : whole;
        a.at[0][i] = place(whole, axis.size, axis.border);
        a.at[1][i] = place(whole + 1, axis.size, axis.border);
        a.weight[0][i] = 1 - part;
        a.weight[1][i] = part;
    }
}

// One channel of a texel of each lane, as float bits or an integer.
template <Format format, bool real>
[[gnu::always_inline]] inline void read(const TextureObject& t, const std::int32_t* x, const std::int32_t* y,
                                        unsigned channel, u32* texel) {
    const auto& level = t.levels[0];
    constexpr std::size_t bytes = format == Format::f32 ? 4 : 1;
    const std::size_t step = bytes * static_cast<std::size_t>(t.channels);
    for (int i = 0; i < lane_count; ++i) {
        const bool outside = x[i] < 0 || y[i] < 0;
        const auto column = static_cast<std::size_t>(outside ? 0 : x[i]),
                   row = static_cast<std::size_t>(outside ? 0 : y[i]);
        const std::byte* const at = level.base + row * level.row + column * step + channel * bytes;
        if constexpr (format == Format::f32) std::memcpy(texel + i, at, 4);
        else texel[i] = static_cast<unsigned char>(*at);
    }
    if constexpr (real && format == Format::u8)
        for (int i = 0; i < lane_count; ++i)
            texel[i] = __builtin_bit_cast(u32, static_cast<float>(static_cast<std::int32_t>(texel[i])) / 255.0f);
}

template <Format format, bool real> [[gnu::always_inline]] inline void sampled(const TextureObject& t, const float* x,
                                                                               const float* y, u32 (*to)[lane_count]) {
    const auto& level = t.levels[0];
    const auto axis = [&](std::size_t size, std::size_t k) {
        const auto n = static_cast<double>(size);
        return Axis{n, t.normalized ? n : 1, t.borders[k] == Border::border};
    };
    const bool linear = t.linear_filter && real, plane = t.dimensions > 1;
    const Axis across = axis(level.width, 0), down = axis(level.height, 1);
    Along a{}, b{};
    if (linear) find_two(a, x, across);
    else find_nearest(a, x, across);
    if (plane && linear) find_two(b, y, down);
    else if (plane) find_nearest(b, y, down);
    if (!linear || !plane) std::fill_n(b.weight[0], lane_count, 1.0f);
    bool outside = false;
    for (int k = 0; k < (linear ? 2 : 1); ++k)
        for (int i = 0; i < lane_count; ++i) outside |= a.at[k][i] < 0 || (plane && b.at[k][i] < 0);
    for (unsigned c = 0; c < 4; ++c) {
        const u32 one = c < 3 ? 0 : real ? __builtin_bit_cast(u32, 1.0f) : 1;
        const u32 beyond = real ? __builtin_bit_cast(u32, t.border_color[c])
                                : static_cast<u32>(static_cast<std::int64_t>(t.border_color[c]));
        float sum[lane_count] = {};
        for (int dy = 0; dy < (linear && plane ? 2 : 1); ++dy)
            for (int dx = 0; dx < (linear ? 2 : 1); ++dx) {
                u32 texel[lane_count];
                if (c < static_cast<unsigned>(t.channels)) read<format, real>(t, a.at[dx], b.at[dy], c, texel);
                else std::fill_n(texel, lane_count, one);
                if (outside)
                    for (int i = 0; i < lane_count; ++i)
                        texel[i] = a.at[dx][i] < 0 || b.at[dy][i] < 0 ? beyond : texel[i];
                if (!linear) {
                    std::copy_n(texel, lane_count, to[c]);
                    continue;
                }
                for (int i = 0; i < lane_count; ++i) {
                    const float weight = a.weight[dx][i] * b.weight[dy][i];
                    const float more = sum[i] + weight * __builtin_bit_cast(float, texel[i]);
                    sum[i] = weight == 0 ? sum[i] : more;
                }
            }
        if (linear) std::memcpy(to[c], sum, sizeof sum);
    }
}

[[gnu::always_inline]] inline void by_format(const TextureObject& t, const float* x, const float* y,
                                             u32 (*to)[lane_count]) {
    if (t.format == Format::f32) return sampled<Format::f32, true>(t, x, y, to);
    if (t.as_real) return sampled<Format::u8, true>(t, x, y, to);
    sampled<Format::u8, false>(t, x, y, to);
}
void narrow(const TextureObject& t, const float* x, const float* y, u32 (*to)[lane_count]) { by_format(t, x, y, to); }
BARCUDA_WIDE void wide(const TextureObject& t, const float* x, const float* y, u32 (*to)[lane_count]) {
    by_format(t, x, y, to);
}

}  // namespace

bool can_sample_lanes(const TextureObject& t) {
    if (t.level_count != 1 || t.cube || t.layered || t.dimensions > 2) return false;
    if (t.format != Format::f32 && t.format != Format::u8) return false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(t.dimensions); ++k)
        if (t.normalized && (t.borders[k] == Border::wrap || t.borders[k] == Border::mirror)) return false;
    return t.dimensions == 2 || t.borders[1] != Border::border || !t.linear_filter;
}

void sample_lanes(const TextureObject& t, const float* x, const float* y, u32 (*to)[lane_count]) {
    wide_cpu ? wide(t, x, y, to) : narrow(t, x, y, to);
}

}  // namespace barcuda::soft
