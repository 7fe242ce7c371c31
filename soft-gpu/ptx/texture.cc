// SPDX-License-Identifier: Apache-2.0
// texture.cc: tex, tld4, suld and sust: reads coordinates from registers and writes texels into them. ../texture.h
// defines textures.
#include "soft-gpu/texture.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/texture_lanes.h"

namespace barcuda::soft {
namespace {

using u32 = std::uint32_t;
using s32 = std::int32_t;

struct Geometry {
    std::string_view name;
    unsigned coordinates;  // without the layer
    bool layered;
};
constexpr Geometry geometries[] = {{"1d", 1, false}, {"2d", 2, false},   {"3d", 3, false},  {"a1d", 1, true},
                                   {"a2d", 2, true}, {"cube", 3, false}, {"acube", 3, true}};

enum class Lookup : std::uint8_t { base, level, grad, gather };
enum class Outside : std::uint8_t { trap, clamp, zero };

// Packed into Instr::imm. The lists hold four texels' slots, then layer, x, y, z, then the level or the derivatives.
struct TextureCall {
    Lookup lookup;
    std::uint8_t coordinates, layered;
    std::uint8_t integer : 1, named : 7;  // .s32 coordinates; the handle is where a reference has it
    std::uint8_t channel;                 // of a gather
    std::uint8_t bytes, width;            // surfaces: bytes of an element, elements
    Outside outside;
};
static_assert(sizeof(TextureCall) == sizeof(std::int64_t));

const TextureObject& object(const Warp& w, std::uint64_t handle, int lane, bool surface) {
    const TextureObject* found = find(handle);
    if (found == nullptr || found->surface != surface)
        throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS,
                    std::string("a number that is not the handle of a ") + (surface ? "surface" : "texture") +
                        " whose memory is there",
                    lane};
    (void)w;
    return *found;
}

// Of each lane: from its register, or the one that a reference has now.
const std::uint64_t* handles_of(Warp& w, const Instr& in, const TextureCall& call, std::uint64_t (&room)[lane_count]) {
    const auto* const values = w.at<std::uint64_t>(in.a);
    if (!call.named) return values;
    std::uint64_t handle = 0;
    std::memcpy(&handle, reinterpret_cast<const void*>(values[0]), sizeof handle);
    std::fill_n(room, std::size(room), handle);
    return room;
}

// All lanes use one texture, as in most warps. Its coordinates may be the registers that it fills.
bool all_at_once(Warp& w, const TextureCall& call, const std::uint64_t* handles, const Slot* slots, Mask mask) {
    if (call.integer || call.layered || call.lookup == Lookup::gather) return false;
    const int first = __builtin_ctz(mask);
    for (Mask m = mask; m != 0; m &= m - 1)
        if (handles[__builtin_ctz(m)] != handles[first]) return false;
    const TextureObject& t = object(w, handles[first], first, false);
    if (t.dimensions != call.coordinates || !can_sample_lanes(t)) return false;
    u32 texels[4][lane_count];
    sample_lanes(t, w.at<float>(slots[5]), w.at<float>(slots[6]), texels);
    for (unsigned k = 0; k < 4; ++k) {
        u32* const d = w.at<u32>(slots[k]);
        each(
            mask, [&](int i) __attribute__((always_inline)) { d[i] = texels[k][i]; });
    }
    return true;
}

Step texture(Warp& w, const Instr& in, Mask mask) {
    const auto call = __builtin_bit_cast(TextureCall, in.imm);
    const Slot* const slots = w.frame->function->lists.data() + in.target;
    std::uint64_t room[lane_count];
    const std::uint64_t* const handles = handles_of(w, in, call, room);
    const auto real = [&](unsigned k, int lane) { return w.at<float>(slots[k])[lane]; };
    const TextureObject* known = nullptr;  // usually that of the previous lane
    if (all_at_once(w, call, handles, slots, mask)) return Step::go;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        if (known == nullptr || known->handle != handles[i]) known = &object(w, handles[i], i, false);
        const TextureObject& t = *known;
        const u32 layer = call.layered ? w.at<u32>(slots[4])[i] : 0;
        Texel texel;
        if (call.integer) {
            s32 at[3] = {};
            for (unsigned k = 0; k < call.coordinates; ++k) at[k] = w.at<s32>(slots[5 + k])[i];
            texel = fetch(t, at[0], at[1], at[2], layer, call.lookup == Lookup::level ? w.at<s32>(slots[8])[i] : 0);
        } else {
            SamplePoint point;
            point.layer = layer;
            point.x = real(5, i);
            if (call.coordinates > 1) point.y = real(6, i);
            if (call.coordinates > 2) point.z = real(7, i);
            if (call.lookup == Lookup::level) point.level = real(8, i);
            if (call.lookup == Lookup::grad) {
                std::array<float, 3> dx{}, dy{};
                for (unsigned k = 0; k < call.coordinates; ++k) {
                    dx[k] = real(8 + k, i);
                    dy[k] = real(11 + k, i);
                }
                point.level = level_of(t, dx, dy);
            }
            texel = call.lookup == Lookup::gather ? gather(t, point, call.channel) : sample(t, point);
        }
        for (unsigned k = 0; k < 4; ++k) w.at<u32>(slots[k])[i] = texel.channel[k];
    }
    return Step::go;
}

// The lists hold the elements' slots, then z (or the layer), x, y.
template <bool load> Step surface(Warp& w, const Instr& in, Mask mask) {
    const auto call = __builtin_bit_cast(TextureCall, in.imm);
    const Slot* const slots = w.frame->function->lists.data() + in.target;
    std::uint64_t room[lane_count];
    const std::uint64_t* const handles = handles_of(w, in, call, room);
    const unsigned bytes = call.bytes * call.width, reg = std::max<unsigned>(call.bytes, 2);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const TextureObject& s = object(w, handles[i], i, true);
        s32 at[3] = {};  // x, y, z
        for (unsigned k = 0; k < call.coordinates; ++k) at[k] = w.at<s32>(slots[5 + k])[i];
        if (call.layered) at[2] = w.at<s32>(slots[4])[i];
        if (static_cast<u32>(at[0]) % bytes != 0 && call.outside != Outside::clamp)
            throw Fault{
                CUDA_ERROR_MISALIGNED_ADDRESS,
                "surface column " + std::to_string(at[0]) + " is not a multiple of " + std::to_string(bytes) + " bytes",
                i};
        std::byte* const place = locate(s, at[0], at[1], at[2], bytes, call.outside == Outside::clamp);
        if (place == nullptr && call.outside == Outside::trap)
            throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS, "coordinates outside the surface", i};
        for (unsigned k = 0; k < call.width; ++k) {
            std::byte* const value = w.at<std::byte>(slots[k]) + static_cast<std::size_t>(i) * reg;
            if (load) {
                std::memset(value, 0, reg);
                if (place != nullptr) std::memcpy(value, place + k * call.bytes, call.bytes);
            } else if (place != nullptr) {
                std::memcpy(place + k * call.bytes, value, call.bytes);
            }
        }
    }
    return Step::go;
}

// ---- decoding -------------------------------------------------------------------------------------------------------

const Geometry& take_geometry(Coder& c) {
    for (const auto& g : geometries)
        if (c.take(g.name)) return g;
    c.refuse();
}

// [handle or name, {coordinates}]: fills slots 4.. and returns the handle, or where a reference has it
Slot take_place(Coder& c, const ast::Operand& o, const Geometry& g, Type type, std::vector<Slot>& slots,
                TextureCall& call) {
    if (!o.address || o.kind != ast::Operand::list || o.items.size() != 2) c.refuse();  // a sampler beside the texture
    std::uint64_t reference = 0;
    if (o.items[0].kind == ast::Operand::name) {
        const Symbol symbol = c.symbols().find(o.items[0].name_text);
        if (symbol.kind != Symbol::address) c.refuse("the symbol '" + std::string(o.items[0].name_text) + "'");
        reference = symbol.value;
        call.named = 1;
    } else if (o.items[0].kind != ast::Operand::reg) {
        c.refuse();
    }
    const auto& given = o.items[1];
    std::vector<ast::Operand> coordinates =
        given.kind == ast::Operand::list ? given.items : std::vector<ast::Operand>{given};
    slots.push_back(c.constant(0, 4));
    std::size_t at = 0;
    if (coordinates.size() < g.coordinates + (g.layered ? 1u : 0u)) c.refuse();
    if (g.layered) slots.back() = c.read(coordinates[at++], Type::u32);
    for (unsigned k = 0; k < 3; ++k)
        slots.push_back(k < g.coordinates ? c.read(coordinates[at++], type) : slots.front());
    return call.named ? c.constant(reference, 8) : c.read(o.items[0], Type::b64);
}

void decode_texture(Coder& c) {
    TextureCall call{};
    const bool gathers = c.in().name == "tld4";
    if (gathers) {
        static constexpr std::string_view channels[] = {"r", "g", "b", "a"};
        call.lookup = Lookup::gather;
        while (call.channel < 4 && !c.take(channels[call.channel])) ++call.channel;
        if (call.channel == 4) c.refuse();
    } else if (c.take("level")) {
        call.lookup = Lookup::level;
    } else if (c.take("grad")) {
        call.lookup = Lookup::grad;
    } else {
        c.take("base");
    }
    const Geometry& g = take_geometry(c);
    if (!c.take("v4")) c.refuse();
    const Type to = c.take_type(), type = c.take_type();
    c.count(call.lookup == Lookup::grad    ? 4
            : call.lookup == Lookup::level ? 3
                                           : 2,
            call.lookup == Lookup::grad    ? 4
            : call.lookup == Lookup::level ? 3
                                           : 2);
    if (bytes_of(to) != 4 || (type != Type::f32 && type != Type::s32) || c.operand(0).items.size() != 4) c.refuse();
    call.coordinates = static_cast<std::uint8_t>(g.coordinates);
    call.layered = g.layered;
    call.integer = type == Type::s32 ? 1 : 0;
    std::vector<Slot> slots;
    for (const auto& item : c.operand(0).items) slots.push_back(c.write(item, to));
    const Slot handle = take_place(c, c.operand(1), g, type, slots, call);
    if (call.lookup == Lookup::level) slots.push_back(c.read(c.operand(2), type));
    if (call.lookup == Lookup::grad) {
        for (std::size_t side : {2u, 3u}) {
            const auto& o = c.operand(side);
            const auto items = o.kind == ast::Operand::list ? o.items : std::vector<ast::Operand>{o};
            if (items.size() < g.coordinates) c.refuse();
            for (unsigned k = 0; k < 3; ++k)
                slots.push_back(k < g.coordinates ? c.read(items[k], Type::f32) : slots[4]);
        }
    }
    auto& in = c.emit(texture, nowhere, handle);
    in.imm = __builtin_bit_cast(std::int64_t, call);
    in.target = c.list(slots);
}

void decode_surface(Coder& c) {
    TextureCall call{};
    const bool load = c.in().name == "suld";
    if (!c.take("b")) c.refuse();
    const Geometry& g = take_geometry(c);
    call.width = c.take("v2") ? 2 : c.take("v4") ? 4 : 1;
    c.ignore({"ca", "cg", "cs", "cv", "wb", "wt"});
    const Type type = c.take_type();
    call.outside = c.take("clamp") ? Outside::clamp : c.take("zero") ? Outside::zero : Outside::trap;
    c.take("trap");
    c.count(2, 2);
    call.bytes = static_cast<std::uint8_t>(bytes_of(type));
    call.coordinates = static_cast<std::uint8_t>(g.coordinates);
    call.layered = g.layered;
    const auto& values = c.operand(load ? 0 : 1);
    const auto items = values.kind == ast::Operand::list ? values.items : std::vector<ast::Operand>{values};
    if (items.size() != call.width || call.bytes > 8) c.refuse();
    std::vector<Slot> slots;
    for (const auto& item : items) slots.push_back(load ? c.write(item, type) : c.read(item, type));
    while (slots.size() < 4) slots.push_back(slots[0]);
    const Slot handle = take_place(c, c.operand(load ? 1 : 0), g, Type::s32, slots, call);
    auto& in = c.emit(load ? surface<true> : surface<false>, nowhere, handle);
    in.imm = __builtin_bit_cast(std::int64_t, call);
    in.target = c.list(slots);
}

}  // namespace

void texture_instructions(Decoders& t) {
    t["tex"] = t["tex.f"] = t["tex.i"] = t["tld4"] = t["tld4.f"] = decode_texture;
    t["suld"] = t["sust"] = decode_surface;
}

}  // namespace barcuda::soft
