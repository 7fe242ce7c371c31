// SPDX-License-Identifier: Apache-2.0
// texture.h: textures and surfaces, as kernels see them. The driver half makes objects from the program's descriptors
// (create); the engine's tex, tld4, suld and sust instructions read and write through them. A handle is a 64-bit number
// in a kernel's register: a kernel may pass any number, and find() tells which ones are objects.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace barcuda::soft {

struct TextureObject {
    enum class Format { u8, s8, u16, s16, u32, s32, f16, f32 };
    enum class Border { wrap, clamp, mirror, border };  // CUaddress_mode's order
    // One mipmap level; a texture without mipmaps has one. Sizes in texels, never 0; steps in bytes.
    struct Level {
        std::byte* base = nullptr;
        std::size_t width = 1, height = 1, depth = 1;  // depth: slices of a volume, layers, or faces
        std::size_t row = 0, slice = 0;
    };

    std::uint64_t handle = 0;  // 0: no object (any more)
    bool surface = false;
    Format format = Format::f32;
    int channels = 1;
    int dimensions = 1;  // of coordinates, without a layer; a cube's are 3
    bool layered = false, cube = false;
    std::array<Level, 18> levels;
    int level_count = 1;

    std::array<Border, 3> borders{Border::clamp, Border::clamp, Border::clamp};
    std::array<float, 4> border_color{};
    bool linear_filter = false, linear_between_levels = false;
    bool normalized = false;  // coordinates are 0..1
    bool as_real = false;     // 8 and 16 bit integers are read as 0..1 or -1..1
    float level_bias = 0, least_level = 0, most_level = 0;

    std::size_t texel_bytes() const;
    // What a fetch returns in its registers: float bits, or an integer extended to 32 bits.
    bool returns_float() const { return as_real || format == Format::f16 || format == Format::f32; }
};

// Enters a copy and gives it its handle; 0 if there are too many.
std::uint64_t create(const TextureObject& object);
bool destroy(std::uint64_t handle);  // false: there was none
// find() does not find an object whose memory is gone; the object keeps its handle.
void show(std::uint64_t handle, bool there);
const TextureObject* find(std::uint64_t handle);  // lock-free; nullptr if there is none. Stays readable memory

// Red, green, blue, alpha: float bits if returns_float(), else integers. Channels that the format lacks are 0, 0, 1.
struct Texel {
    std::uint32_t channel[4];
};
struct SamplePoint {
    float x = 0, y = 0, z = 0;  // .f32 coordinates
    std::uint32_t layer = 0;    // of layered textures
    float level = 0;            // .level; of .grad what level_of() says
};
// tex with .f32 coordinates.
Texel sample(const TextureObject& texture, const SamplePoint& at);
// tex with .s32 coordinates: one texel, no filter; outside it is the border.
Texel fetch(const TextureObject& texture, std::int32_t x, std::int32_t y, std::int32_t z, std::uint32_t layer,
            int level);
// tld4: one channel of the four texels that a linear filter would take, in the order of the instruction: (0,1) (1,1)
// (1,0) (0,0).
Texel gather(const TextureObject& texture, const SamplePoint& at, int channel);
// The level for .grad: of derivatives in coordinate units, dx and dy of each coordinate.
float level_of(const TextureObject& texture, const std::array<float, 3>& dx, const std::array<float, 3>& dy);

// suld and sust: the address of `bytes` at byte column x of row y; z is the slice, layer, or layer * 6 + face. Outside:
// with `clamp` the nearest place inside, otherwise nullptr (.trap is a fault, .zero reads 0 and does not write).
std::byte* locate(const TextureObject& surface, std::int32_t x, std::int32_t y, std::int32_t z, std::size_t bytes,
                  bool clamp);

}  // namespace barcuda::soft
