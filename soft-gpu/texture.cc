// SPDX-License-Identifier: Apache-2.0
// texture.cc: the arithmetic of texture units, as the CUDA programming guide's appendix on texture fetching gives it:
// linear filters weigh with 8 fractional bits, as hardware does, so that results agree with it.
#include "soft-gpu/texture.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

namespace barcuda::soft {
namespace {

using Format = TextureObject::Format;
using Border = TextureObject::Border;
using Level = TextureObject::Level;

// ---- the table: a handle is a slot and the count of its uses, so that an old handle never means a new object
// ---------

constexpr std::size_t most_objects = 1 << 16;
struct Table {
    std::atomic<TextureObject*> slots[most_objects]{};
    std::mutex mutex;  // for create and destroy
    std::vector<std::uint32_t> vacant;
    // For each slot, reused with it and never freed: a running kernel may be reading a destroyed one.
    std::vector<TextureObject*> objects;
    std::vector<bool> used;  // by an object that is not destroyed
    std::uint32_t serial = 0;
    TextureObject* of(std::uint64_t handle) const {  // needs the mutex; also finds hidden ones
        const std::uint32_t slot = static_cast<std::uint32_t>(handle) - 1;
        return slot < objects.size() && used[slot] && objects[slot]->handle == handle ? objects[slot] : nullptr;
    }
};
Table& table() {
    static Table* const table = new Table;  // kernels may run while the process exits
    return *table;
}

// ---- texels -------------------------------------------------------------------------------------------------------

std::size_t channel_bytes(Format format) {
    switch (format) {
        case Format::u8:
        case Format::s8: return 1;
        case Format::u16:
        case Format::s16:
        case Format::f16: return 2;
        default: return 4;
    }
}

float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, exponent = half >> 10 & 31, fraction = half & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    const float magnitude = exponent == 0
                                ? std::ldexp(static_cast<float>(fraction), -24)
                                : std::ldexp(static_cast<float>(fraction + 1024), static_cast<int>(exponent) - 25);
    return sign ? -magnitude : magnitude;
}

template <class T> T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// The value of a byte, between 0 and 1: most images consist of these.
const std::array<std::uint32_t, 256> real_bytes = [] {
    std::array<std::uint32_t, 256> all{};
    for (unsigned v = 0; v < 256; ++v) all[v] = std::bit_cast<std::uint32_t>(static_cast<float>(v) / 255.0f);
    return all;
}();

std::uint32_t channel_at(const TextureObject& texture, const std::byte* at) {
    const auto real = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    const auto integer = [](auto value) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)); };
    switch (texture.format) {
        case Format::u8: {
            const auto v = load<std::uint8_t>(at);
            return texture.as_real ? real_bytes[v] : v;
        }
        case Format::s8: {
            const auto v = load<std::int8_t>(at);
            return texture.as_real ? real(std::max(static_cast<float>(v) / 127.0f, -1.0f)) : integer(v);
        }
        case Format::u16: {
            const auto v = load<std::uint16_t>(at);
            return texture.as_real ? real(static_cast<float>(v) / 65535.0f) : v;
        }
        case Format::s16: {
            const auto v = load<std::int16_t>(at);
            return texture.as_real ? real(std::max(static_cast<float>(v) / 32767.0f, -1.0f)) : integer(v);
        }
        case Format::f16: return real(half_to_float(load<std::uint16_t>(at)));
        default: return load<std::uint32_t>(at);
    }
}

Texel missing_channels(const TextureObject& texture) {
    return {{0, 0, 0, texture.returns_float() ? std::bit_cast<std::uint32_t>(1.0f) : 1u}};
}

Texel border_texel(const TextureObject& texture) {
    Texel texel{};
    for (std::size_t i = 0; i < 4; ++i)
        texel.channel[i] = texture.returns_float()
                               ? std::bit_cast<std::uint32_t>(texture.border_color[i])
                               : static_cast<std::uint32_t>(static_cast<std::int64_t>(texture.border_color[i]));
    return texel;
}

// ---- addressing -----------------------------------------------------------------------------------------------------

// The index used for `i` outside of 0..size-1; -1: the border.
std::int64_t place(std::int64_t i, std::size_t size, Border border, bool normalized) {
    const auto n = static_cast<std::int64_t>(size);
    if (i >= 0 && i < n) return i;
    // Wrap and mirror need normalized coordinates; without them they clamp.
    if (border == Border::border) return -1;
    if (!normalized || border == Border::clamp) return std::clamp<std::int64_t>(i, 0, n - 1);
    const std::int64_t period = border == Border::wrap ? n : 2 * n;
    i = (i % period + period) % period;
    return i < n ? i : period - 1 - i;
}

struct Index {
    std::int64_t x, y, z;  // z: of a volume
};

// For an index that is already placed.
Texel texel_in(const TextureObject& texture, const Level& level, Index i, std::size_t slice) {
    if (i.x < 0 || i.y < 0 || i.z < 0) return border_texel(texture);
    const std::byte* const at = level.base + slice * level.slice + static_cast<std::size_t>(i.y) * level.row +
                                static_cast<std::size_t>(i.x) * texture.texel_bytes();
    Texel texel = missing_channels(texture);
    if (texture.format == Format::f32) {  // the most common by far
        std::memcpy(texel.channel, at, 4 * static_cast<std::size_t>(texture.channels));
        return texel;
    }
    if (texture.format == Format::u8 && texture.as_real) {
        for (int c = 0; c < texture.channels; ++c) texel.channel[c] = real_bytes[static_cast<unsigned char>(at[c])];
        return texel;
    }
    for (int c = 0; c < texture.channels; ++c)
        texel.channel[c] = channel_at(texture, at + static_cast<std::size_t>(c) * channel_bytes(texture.format));
    return texel;
}

Texel texel_at(const TextureObject& texture, const Level& level, Index i, std::size_t slice) {
    i.x = place(i.x, level.width, texture.borders[0], texture.normalized);
    if (texture.dimensions > 1) i.y = place(i.y, level.height, texture.borders[1], texture.normalized);
    if (texture.dimensions > 2 && !texture.cube) {
        i.z = place(i.z, level.depth, texture.borders[2], texture.normalized);
        slice = static_cast<std::size_t>(i.z);
    }
    return texel_in(texture, level, i, slice);
}

// floor() of a number that fits; without SSE 4.1 the library's is a call.
std::int64_t floor_of(double x) {
    const auto whole = static_cast<std::int64_t>(x);
    return whole - (x < static_cast<double>(whole));
}

// A coordinate in texels, as whole part and 256ths.
struct Position {
    std::int64_t whole = 0;
    float part = 0;
};
// Far outside, everything is clamped or bordered in the same way; the bounds keep the conversion to integers defined.
// NaN is 0.
double bounded(double x) { return std::isnan(x) ? 0 : std::clamp(x, -1e15, 1e15); }

std::int64_t nearest(float x, std::size_t size, bool normalized) {
    return floor_of(bounded(normalized ? static_cast<double>(x) * static_cast<double>(size) : x));
}
Position between(float x, std::size_t size, bool normalized) {
    const double texels = bounded((normalized ? static_cast<double>(x) * static_cast<double>(size) : x) - 0.5);
    const std::int64_t fixed = floor_of(texels * 256 + 0.5);
    return {fixed >> 8, static_cast<float>(fixed & 255) / 256};
}

// The two texels of a linear filter in one direction. A texel without weight is not read: it may not be a number.
struct Neighbours {
    std::int64_t at[2] = {};  // -1: border
    float weight[2] = {1, 0};
    Neighbours() = default;
    Neighbours(const Position& p, std::size_t size, Border border, bool normalized)
        : at{place(p.whole, size, border, normalized), place(p.whole + 1, size, border, normalized)},
          weight{1 - p.part, p.part} {}
};

// The face that a direction points to, and where on it: 0..1 each.
struct Face {
    std::size_t face;
    float s, t;
};
Face face_of(float x, float y, float z) {
    const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    const auto on = [](std::size_t face, float s, float t, float m) {
        return m == 0 ? Face{face, 0.5f, 0.5f} : Face{face, (s / m + 1) / 2, (t / m + 1) / 2};
    };
    if (ax >= ay && ax >= az) return x >= 0 ? on(0, -z, -y, ax) : on(1, z, -y, ax);
    if (ay >= az) return y >= 0 ? on(2, x, z, ay) : on(3, x, -z, ay);
    return z >= 0 ? on(4, x, -y, az) : on(5, -x, -y, az);
}

std::size_t slice_of(const TextureObject& texture, const Level& level, std::uint32_t layer) {
    if (!texture.layered) return 0;
    const std::size_t layers = texture.cube ? level.depth / 6 : level.depth;
    return std::min<std::size_t>(static_cast<std::int32_t>(layer) < 0 ? 0 : layer, layers - 1);
}

Texel sample_level(const TextureObject& texture, const Level& level, SamplePoint at) {
    std::size_t slice = slice_of(texture, level, at.layer);
    bool normalized = texture.normalized;
    if (texture.cube) {
        const Face face = face_of(at.x, at.y, at.z);
        slice = slice * 6 + face.face;
        at.x = face.s;
        at.y = face.t;
        normalized = true;
    }
    const bool has_y = texture.dimensions > 1, has_z = texture.dimensions > 2 && !texture.cube;
    if (!texture.linear_filter || !texture.returns_float())
        return texel_at(texture, level,
                        {nearest(at.x, level.width, normalized), has_y ? nearest(at.y, level.height, normalized) : 0,
                         has_z ? nearest(at.z, level.depth, normalized) : 0},
                        slice);
    const auto along = [&](float coordinate, std::size_t size, int k) {
        return Neighbours(between(coordinate, size, normalized), size, texture.borders[static_cast<std::size_t>(k)],
                          texture.normalized);
    };
    // A line is the only row of two dimensions, sampled at y = 0: half a row before the middle of the row. Other modes
    // find the same row there.
    const bool beside_row = !has_y && texture.borders[1] == Border::border;
    const Neighbours x = along(at.x, level.width, 0),
                     y = has_y || beside_row ? along(has_y ? at.y : 0, level.height, 1) : Neighbours{},
                     z = has_z ? along(at.z, level.depth, 2) : Neighbours{};
    float sum[4] = {};
    for (int dz = 0; dz < 2; ++dz)
        for (int dy = 0; dy < 2; ++dy)
            for (int dx = 0; dx < 2; ++dx) {
                const float weight = x.weight[dx] * y.weight[dy] * z.weight[dz];
                if (weight == 0) continue;
                const Texel texel = texel_in(texture, level, {x.at[dx], y.at[dy], z.at[dz]},
                                             has_z ? static_cast<std::size_t>(z.at[dz]) : slice);
                for (int c = 0; c < 4; ++c) sum[c] += weight * std::bit_cast<float>(texel.channel[c]);
            }
    Texel result{};
    for (int c = 0; c < 4; ++c) result.channel[c] = std::bit_cast<std::uint32_t>(sum[c]);
    return result;
}

}  // namespace

std::size_t TextureObject::texel_bytes() const { return channel_bytes(format) * static_cast<std::size_t>(channels); }

std::uint64_t create(const TextureObject& object) {
    Table& all = table();
    std::lock_guard lock(all.mutex);
    std::uint32_t slot;
    if (!all.vacant.empty()) {
        slot = all.vacant.back();
        all.vacant.pop_back();
    } else if (all.objects.size() < most_objects) {
        slot = static_cast<std::uint32_t>(all.objects.size());
        all.objects.push_back(new TextureObject);
        all.used.push_back(false);
    } else {
        return 0;
    }
    TextureObject* const made = all.objects[slot];
    *made = object;
    made->handle = (std::uint64_t{++all.serial} << 32) | (slot + 1);
    const std::uint64_t handle = made->handle;
    all.used[slot] = true;
    all.slots[slot].store(made, std::memory_order_release);
    return handle;
}

bool destroy(std::uint64_t handle) {
    Table& all = table();
    std::lock_guard lock(all.mutex);
    if (!all.of(handle)) return false;
    const auto slot = static_cast<std::uint32_t>(handle) - 1;
    all.used[slot] = false;
    all.slots[slot].store(nullptr, std::memory_order_release);
    all.vacant.push_back(slot);
    return true;
}

void show(std::uint64_t handle, bool there) {
    Table& all = table();
    std::lock_guard lock(all.mutex);
    if (TextureObject* const object = all.of(handle))
        all.slots[static_cast<std::uint32_t>(handle) - 1].store(there ? object : nullptr, std::memory_order_release);
}

const TextureObject* find(std::uint64_t handle) {
    const std::uint32_t slot = static_cast<std::uint32_t>(handle) - 1;
    if (slot >= most_objects) return nullptr;
    const TextureObject* const object = table().slots[slot].load(std::memory_order_acquire);
    return object && object->handle == handle ? object : nullptr;
}

Texel sample(const TextureObject& texture, const SamplePoint& at) {
    if (texture.level_count == 1) return sample_level(texture, texture.levels[0], at);
    const float last = static_cast<float>(texture.level_count - 1);
    float level = std::clamp(at.level + texture.level_bias, texture.least_level,
                             std::max(texture.least_level, texture.most_level));
    level = std::isnan(level) ? 0 : std::clamp(level, 0.0f, last);
    if (!texture.linear_between_levels || !texture.returns_float())
        return sample_level(texture, texture.levels[static_cast<std::size_t>(std::floor(level + 0.5f))], at);
    const float fixed = std::floor(level * 256 + 0.5f) / 256;
    const auto first = static_cast<std::size_t>(fixed);
    const float part = fixed - static_cast<float>(first);
    Texel texel = sample_level(texture, texture.levels[first], at);
    if (part == 0) return texel;
    const Texel next = sample_level(texture, texture.levels[first + 1], at);
    for (int c = 0; c < 4; ++c)
        texel.channel[c] = std::bit_cast<std::uint32_t>((1 - part) * std::bit_cast<float>(texel.channel[c]) +
                                                        part * std::bit_cast<float>(next.channel[c]));
    return texel;
}

Texel fetch(const TextureObject& texture, std::int32_t x, std::int32_t y, std::int32_t z, std::uint32_t layer,
            int level) {
    const Level& of = texture.levels[static_cast<std::size_t>(std::clamp(level, 0, texture.level_count - 1))];
    return texel_at(texture, of, {x, texture.dimensions > 1 ? y : 0, texture.dimensions > 2 ? z : 0},
                    slice_of(texture, of, layer));
}

Texel gather(const TextureObject& texture, const SamplePoint& at, int channel) {
    const Level& level = texture.levels[0];
    const std::size_t slice = slice_of(texture, level, at.layer);
    const Position x = between(at.x, level.width, texture.normalized),
                   y = between(at.y, level.height, texture.normalized);
    constexpr struct { int x, y; } order[4] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    Texel result{};
    for (int i = 0; i < 4; ++i)
        result.channel[i] =
            texel_at(texture, level, {x.whole + order[i].x, y.whole + order[i].y, 0}, slice).channel[channel & 3];
    return result;
}

float level_of(const TextureObject& texture, const std::array<float, 3>& dx, const std::array<float, 3>& dy) {
    const Level& level = texture.levels[0];
    const std::array<float, 3> size =
        texture.normalized ? std::array<float, 3>{static_cast<float>(level.width), static_cast<float>(level.height),
                                                  static_cast<float>(level.depth)}
                           : std::array<float, 3>{1, 1, 1};
    float along_x = 0, along_y = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(texture.dimensions); ++i) {
        along_x += dx[i] * size[i] * dx[i] * size[i];
        along_y += dy[i] * size[i] * dy[i] * size[i];
    }
    const float longest = std::max(along_x, along_y);
    return longest > 0 ? 0.5f * std::log2(longest) : -1000.0f;
}

std::byte* locate(const TextureObject& surface, std::int32_t x, std::int32_t y, std::int32_t z, std::size_t bytes,
                  bool clamp) {
    const Level& level = surface.levels[0];
    const auto row_bytes = static_cast<std::int64_t>(level.width * surface.texel_bytes());
    const std::int64_t last_x = row_bytes - static_cast<std::int64_t>(bytes);
    const auto last_y = static_cast<std::int64_t>(level.height) - 1,
               last_z = static_cast<std::int64_t>(level.depth) - 1;
    if (last_x < 0) return nullptr;
    std::int64_t px = x, py = y, pz = z;
    if (clamp) {
        // To the last whole element that is aligned as x is.
        px = std::clamp<std::int64_t>(px, 0,
                                      last_x / static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(bytes));
        py = std::clamp<std::int64_t>(py, 0, last_y);
        pz = std::clamp<std::int64_t>(pz, 0, last_z);
    } else if (px < 0 || px > last_x || py < 0 || py > last_y || pz < 0 || pz > last_z) {
        return nullptr;
    }
    return level.base + static_cast<std::size_t>(pz) * level.slice + static_cast<std::size_t>(py) * level.row +
           static_cast<std::size_t>(px);
}

}  // namespace barcuda::soft
