// SPDX-License-Identifier: Apache-2.0
// texture_calls.cc: cuTexObject* and cuSurfObject*: from descriptors to the objects that kernels use (texture.h). What
// a texture unit can do and we cannot is refused here, by name, and never at a fetch.
#include "soft-gpu/texture.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "soft-gpu/driver/array.h"
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

using Format = TextureObject::Format;

// What an object was made of: for queries by the program, and to keep its memory alive.
struct Made {
    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC texture{};
    CUDA_RESOURCE_VIEW_DESC view{};
    bool has_view = false, surface = false;
    CUdeviceptr memory = 0;  // read in place, not kept alive
    std::size_t bytes = 0;
    std::shared_ptr<Array> array;
    std::shared_ptr<Mipmap> mipmap;
};
// Destroyed while queued work may read it: kernels keep it until that work is done.
struct Leaving {
    std::uint64_t handle;
    Made of;  // keeps its arrays alive
    std::vector<Mark> until;
};
struct MadeObjects {
    std::mutex mutex;
    std::map<std::uint64_t, Made> all;
    std::vector<Leaving> leaving;

    void let_go() {
        std::erase_if(leaving, [](const Leaving& each) {
            return std::all_of(each.until.begin(), each.until.end(), [](const Mark& mark) { return mark.done(); }) &&
                   destroy(each.handle);
        });
    }
};
MadeObjects& made_objects() {
    static auto* const objects = new MadeObjects;
    return *objects;
}
Made made(std::uint64_t handle, bool surface) {
    MadeObjects& objects = made_objects();
    std::lock_guard lock(objects.mutex);
    const auto found = objects.all.find(handle);
    require(found != objects.all.end() && found->second.surface == surface);
    return found->second;
}

Format format_of(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8: return Format::u8;
        case CU_AD_FORMAT_SIGNED_INT8: return Format::s8;
        case CU_AD_FORMAT_UNSIGNED_INT16: return Format::u16;
        case CU_AD_FORMAT_SIGNED_INT16: return Format::s16;
        case CU_AD_FORMAT_UNSIGNED_INT32: return Format::u32;
        case CU_AD_FORMAT_SIGNED_INT32: return Format::s32;
        case CU_AD_FORMAT_HALF: return Format::f16;
        case CU_AD_FORMAT_FLOAT: return Format::f32;
        default: refuse("a texture of format " + std::to_string(format));
    }
}

void set_format(TextureObject& object, CUarray_format format, unsigned channels) {
    require(channels == 1 || channels == 2 || channels == 4);
    object.format = format_of(format);
    object.channels = static_cast<int>(channels);
}

TextureObject::Level level_of_array(const Array& array) {
    return {array.base, array.shape.Width, array.rows, array.slices, array.row_bytes, array.slice_bytes};
}

void set_shape(TextureObject& object, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    set_format(object, shape.Format, shape.NumChannels);
    object.layered = shape.Flags & CUDA_ARRAY3D_LAYERED;
    object.cube = shape.Flags & CUDA_ARRAY3D_CUBEMAP;
    object.dimensions = object.cube ? 3 : shape.Height == 0 ? 1 : shape.Depth == 0 || object.layered ? 2 : 3;
}

// Device memory that a texture reads in place.
std::byte* memory_at(Made& of, CUdeviceptr address, std::size_t bytes) {
    of.memory = address;
    of.bytes = bytes;
    require(bytes != 0 && Driver::get().memory.covered(address, bytes, false));
    return reinterpret_cast<std::byte*>(address);
}

// How many of these bytes there are from the address on, perhaps in several adjacent mappings.
std::size_t memory_from(CUdeviceptr address, std::size_t bytes) {
    std::size_t there = 0;
    for (auto range = Driver::get().memory.find(address); range; range = Driver::get().memory.find(address + there)) {
        there = range->base + range->size - address;
        if (there >= bytes || range->kind != Allocation::Kind::mapped) break;
    }
    return std::min(bytes, there);
}

void set_resource(TextureObject& object, Made& of, const CUDA_RESOURCE_DESC& resource) {
    require(resource.flags == 0);
    of.resource = resource;
    switch (resource.resType) {
        case CU_RESOURCE_TYPE_ARRAY:
            of.array = Driver::get().arrays.find(resource.res.array.hArray);
            set_shape(object, of.array->shape);
            object.levels[0] = level_of_array(*of.array);
            return;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            of.mipmap = Driver::get().mipmaps.find(resource.res.mipmap.hMipmappedArray);
            set_shape(object, of.mipmap->shape);
            object.level_count = static_cast<int>(of.mipmap->levels.size());
            require(of.mipmap->levels.size() <= object.levels.size());
            for (std::size_t i = 0; i < of.mipmap->levels.size(); ++i)
                object.levels[i] = level_of_array(*of.mipmap->levels[i]);
            return;
        case CU_RESOURCE_TYPE_LINEAR: {
            const auto& linear = resource.res.linear;
            set_format(object, linear.format, linear.numChannels);
            require(linear.devPtr % object.texel_bytes() == 0);
            // No driver refuses a size beyond the program's memory; here the excess reads like what is outside a
            // texture.
            const std::size_t bytes = memory_from(linear.devPtr, linear.sizeInBytes);
            require(linear.sizeInBytes >= object.texel_bytes() && bytes != 0);
            object.levels[0] = {memory_at(of, linear.devPtr, bytes), bytes / object.texel_bytes(), 1, 1, bytes, bytes};
            return;
        }
        case CU_RESOURCE_TYPE_PITCH2D: {
            const auto& flat = resource.res.pitch2D;
            set_format(object, flat.format, flat.numChannels);
            require(flat.width != 0 && flat.width <= 131072 && flat.height != 0 && flat.height <= 65536);
            require(flat.pitchInBytes >= flat.width * object.texel_bytes() && flat.pitchInBytes % 32 == 0);
            object.dimensions = 2;
            object.levels[0] = {
                memory_at(of, flat.devPtr, (flat.height - 1) * flat.pitchInBytes + flat.width * object.texel_bytes()),
                flat.width,
                flat.height,
                1,
                flat.pitchInBytes,
                flat.pitchInBytes * flat.height};
            return;
        }
        default: fail(CUDA_ERROR_INVALID_VALUE);
    }
}

void set_reading(TextureObject& object, const CUDA_TEXTURE_DESC& texture, bool linear_memory) {
    for (int i = 0; i < 3; ++i) {
        require(texture.addressMode[i] <= CU_TR_ADDRESS_MODE_BORDER);
        object.borders[static_cast<std::size_t>(i)] = static_cast<TextureObject::Border>(texture.addressMode[i]);
    }
    std::copy(std::begin(texture.borderColor), std::end(texture.borderColor), object.border_color.begin());
    if (texture.flags & CU_TRSF_SRGB) refuse("a texture with CU_TRSF_SRGB");
    if (texture.flags & CU_TRSF_SEAMLESS_CUBEMAP) refuse("a texture with CU_TRSF_SEAMLESS_CUBEMAP");
    if (texture.maxAnisotropy > 1 && object.level_count > 1) refuse("an anisotropic texture");
    object.normalized = texture.flags & CU_TRSF_NORMALIZED_COORDINATES;
    require(!object.cube || object.normalized);
    require(object.level_count == 1 || object.normalized);
    const bool wide = object.format == Format::u32 || object.format == Format::s32;
    object.as_real = !(texture.flags & CU_TRSF_READ_AS_INTEGER) && !wide && object.format != Format::f16 &&
                     object.format != Format::f32;
    if (linear_memory) {  // read only by index: zeros beyond its end
        object.borders[0] = TextureObject::Border::border;
        object.border_color = {};
        object.normalized = false;
        return;
    }
    object.linear_filter = texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
    object.linear_between_levels = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    require(!object.linear_filter || object.returns_float());
    object.level_bias = texture.mipmapLevelBias;
    object.least_level = texture.minMipmapLevelClamp;
    object.most_level = texture.maxMipmapLevelClamp;
}

// The formats of CUresourceViewFormat in their order: for each of these there are three counts of channels.
void set_view_format(TextureObject& object, CUresourceViewFormat format) {
    if (format == CU_RES_VIEW_FORMAT_NONE) return;
    require(static_cast<unsigned>(format) <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7);  // an enumeration compares as an int
    if (format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1) refuse("a view of compressed blocks");
    constexpr Format formats[] = {Format::u8,  Format::s8,  Format::u16, Format::s16,
                                  Format::u32, Format::s32, Format::f16, Format::f32};
    constexpr int channels[] = {1, 2, 4};
    const std::size_t before = object.texel_bytes();
    object.format = formats[(format - 1) / 3];
    object.channels = channels[(format - 1) % 3];
    require(object.texel_bytes() == before);
}

void set_view(TextureObject& object, const CUDA_RESOURCE_VIEW_DESC& view) {
    set_view_format(object, view.format);
    const TextureObject::Level& whole = object.levels[0];
    require(view.width == whole.width && (object.dimensions < 2 || view.height == whole.height));
    require(view.firstMipmapLevel <= view.lastMipmapLevel &&
            view.lastMipmapLevel < static_cast<unsigned>(object.level_count));
    std::rotate(object.levels.begin(), object.levels.begin() + view.firstMipmapLevel, object.levels.end());
    object.level_count = static_cast<int>(view.lastMipmapLevel - view.firstMipmapLevel + 1);
    if (!object.layered) return;
    require(view.firstLayer <= view.lastLayer && view.lastLayer < object.levels[0].depth);
    for (int i = 0; i < object.level_count; ++i) {
        TextureObject::Level& level = object.levels[static_cast<std::size_t>(i)];
        level.base += view.firstLayer * level.slice;
        level.depth = view.lastLayer - view.firstLayer + 1;
    }
}

std::uint64_t enter(const TextureObject& object, Made of) {
    MadeObjects& objects = made_objects();
    std::lock_guard lock(objects.mutex);
    objects.let_go();
    const std::uint64_t handle = create(object);
    if (handle == 0) fail(CUDA_ERROR_OUT_OF_MEMORY);
    objects.all.emplace(handle, std::move(of));
    return handle;
}

void leave(std::uint64_t handle, bool surface) {
    Leaving object{handle, made(handle, surface), current_context()->marks()};
    MadeObjects& objects = made_objects();
    std::lock_guard lock(objects.mutex);
    if (objects.all.erase(handle) != 0) objects.leaving.push_back(std::move(object));
    objects.let_go();
}

}  // namespace

// Programs free and unmap memory that textures read. Both wait for earlier work, so memory that exists when a kernel
// begins exists while it runs.
void look_at_textures() {
    MadeObjects& objects = made_objects();
    const auto look = [](std::uint64_t handle, const Made& of) {
        if (of.bytes != 0) show(handle, Driver::get().memory.covered(of.memory, of.bytes, false));
    };
    std::lock_guard lock(objects.mutex);
    for (const auto& [handle, of] : objects.all) look(handle, of);
    for (const Leaving& each : objects.leaving) look(each.handle, each.of);
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                           const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
    return api([&] {
        require(pTexObject && pResDesc && pTexDesc);
        current_context();
        barcuda::soft::TextureObject object;
        Made of;
        set_resource(object, of, *pResDesc);
        of.texture = *pTexDesc;
        if (pResViewDesc) {
            require(of.array || of.mipmap);
            of.view = *pResViewDesc;
            of.has_view = true;
            set_view(object, *pResViewDesc);
        }
        set_reading(object, *pTexDesc, pResDesc->resType == CU_RESOURCE_TYPE_LINEAR);
        *pTexObject = enter(object, std::move(of));
    });
}
CUresult cuTexObjectDestroy(CUtexObject texObject) {
    return api([&] { leave(texObject, false); });
}
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
    return api([&] {
        require(pResDesc);
        *pResDesc = made(texObject, false).resource;
    });
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
    return api([&] {
        require(pTexDesc);
        *pTexDesc = made(texObject, false).texture;
    });
}
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
    return api([&] {
        require(pResViewDesc);
        const Made of = made(texObject, false);
        require(of.has_view);
        *pResViewDesc = of.view;
    });
}

CUresult cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
    return api([&] {
        require(pSurfObject && pResDesc && pResDesc->resType == CU_RESOURCE_TYPE_ARRAY);
        current_context();
        barcuda::soft::TextureObject object;
        Made of;
        set_resource(object, of, *pResDesc);
        require(of.array->shape.Flags & CUDA_ARRAY3D_SURFACE_LDST);
        object.surface = of.surface = true;
        *pSurfObject = enter(object, std::move(of));
    });
}
CUresult cuSurfObjectDestroy(CUsurfObject surfObject) {
    return api([&] { leave(surfObject, true); });
}
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
    return api([&] {
        require(pResDesc);
        *pResDesc = made(surfObject, true).resource;
    });
}
