// SPDX-License-Identifier: Apache-2.0
// texture_reference_calls.cc: cuTexRef* and cuSurfRef*: textures by name, as CUDA had them before version 12. A
// module's reference is a variable of 8 bytes, which has the handle of an object (texture.h). The object is made of
// what was set when a kernel of the module is launched, once earlier work is done with the one before.
#include <algorithm>
#include <cstring>

#include "soft-gpu/driver/array.h"
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/module.h"

namespace barcuda::soft::driver {
namespace {

constexpr std::size_t alignment = 256;  // of what linear textures begin at: as allocations have it (heap.h)

struct Reference {
    std::weak_ptr<Module> module{};  // none: made by cuTexRefCreate, and no kernel reads it
    std::uintptr_t variable = 0;
    bool surface = false;

    std::mutex mutex{};
    bool bound = false, changed = false;
    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC texture{};
    CUarray_format format = CU_AD_FORMAT_FLOAT;
    unsigned channels = 1;
    unsigned long long object = 0;

    Reference() { std::ranges::fill(texture.addressMode, CU_TR_ADDRESS_MODE_CLAMP); }
    ~Reference() { drop(); }
    Reference(const Reference&) = delete;
    void bind(const CUDA_RESOURCE_DESC& to) {
        resource = to;
        bound = changed = true;
    }
    // Needs the mutex.
    void make() {
        if (!changed) return;
        changed = false;
        Driver::get().synchronize();
        drop();
        CUresult r = CUDA_SUCCESS;
        if (bound && surface) r = cuSurfObjectCreate(&object, &resource);
        else if (bound) {
            if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
                resource.res.linear.format = format;
                resource.res.linear.numChannels = channels;
            }
            r = cuTexObjectCreate(&object, &resource, &texture, nullptr);
        }
        std::memcpy(reinterpret_cast<void*>(variable), &object, sizeof object);
        if (r != CUDA_SUCCESS) fail(r);
    }

  private:
    void drop() {
        if (object) surface ? cuSurfObjectDestroy(object) : cuTexObjectDestroy(object);
        object = 0;
    }
};
std::atomic<bool> any{false};  // a module's

Handles<CUtexref, Reference>& references() {
    static auto* const all = new Handles<CUtexref, Reference>;
    return *all;
}

template <class Act> CUresult with(CUtexref handle, Act act, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto reference = references().find(handle);
            std::lock_guard lock(reference->mutex);
            act(*reference);
        },
        name);
}
template <class Set> CUresult set(CUtexref handle, Set set_it, const char* name = __builtin_FUNCTION()) {
    return with(
        handle,
        [&](Reference& reference) {
            set_it(reference);
            reference.changed = true;
        },
        name);
}
template <class T, class Get>
CUresult get(T* to, CUtexref handle, Get get_it, const char* name = __builtin_FUNCTION()) {
    return with(
        handle,
        [&](Reference& reference) {
            require(to);
            *to = get_it(reference);
        },
        name);
}
template <class T> T only(bool there, T value) {
    require(there);
    return value;
}

CUtexref reference_of(CUmodule handle, const char* name, bool surface) {
    require(name);
    const auto module = Driver::get().modules.find(handle);
    const auto found = module->globals.find(std::string_view(name));
    if (found == module->globals.end() || !found->second.reference) fail(CUDA_ERROR_NOT_FOUND);
    any = true;
    references().take_if([](const Reference& its) { return its.variable && its.module.expired(); });
    for (const auto& known : references().all())
        if (known->variable == found->second.address) return references().handle_of(*known);
    const auto fresh = std::make_shared<Reference>();
    fresh->module = module;
    fresh->variable = found->second.address;
    fresh->surface = surface;
    return references().add(fresh);
}

CUDA_RESOURCE_DESC of_array(CUarray array) {
    Driver::get().arrays.find(array);
    CUDA_RESOURCE_DESC to{};
    to.resType = CU_RESOURCE_TYPE_ARRAY;
    to.res.array.hArray = array;
    return to;
}

}  // namespace

void make_references(const Module& module) {
    if (!any) return;
    for (const auto& reference : references().all())
        if (reference->module.lock().get() == &module) {
            std::lock_guard lock(reference->mutex);
            reference->make();
        }
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) {
    return api([&] {
        require(pTexRef);
        *pTexRef = reference_of(hmod, name, false);
    });
}
CUresult cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
    return api([&] {
        require(pSurfRef);
        *pSurfRef = reinterpret_cast<CUsurfref>(reference_of(hmod, name, true));
    });
}
CUresult cuTexRefCreate(CUtexref* pTexRef) {
    return api([&] {
        require(pTexRef);
        current_context();
        *pTexRef = references().add(std::make_shared<Reference>());
    });
}
CUresult cuTexRefDestroy(CUtexref hTexRef) {
    return api([&] { references().take(hTexRef); });
}
CUresult cuParamSetTexRef(CUfunction hfunc, int, CUtexref hTexRef) {
    return api([&] {
        function_of(hfunc);
        references().find(hTexRef);  // kernels find references by name
    });
}

// ---- what it reads --------------------------------------------------------------------------------------------------

// Without CU_TRSA_OVERRIDE_FORMAT, which is documented as needed, an H100's driver does not refuse it.
CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int) {
    return with(hTexRef, [&](Reference& r) { r.bind(of_array(hArray)); });
}
CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags) {
    return with(hTexRef, [&](Reference& r) {
        require(Flags == CU_TRSA_OVERRIDE_FORMAT);
        Driver::get().mipmaps.find(hMipmappedArray);
        CUDA_RESOURCE_DESC to{};
        to.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        to.res.mipmap.hMipmappedArray = hMipmappedArray;
        r.bind(to);
    });
}
CUresult cuTexRefSetAddress_v2(size_t* ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes) {
    return with(hTexRef, [&](Reference& r) {
        const std::size_t offset = dptr % alignment;
        require(offset == 0 || ByteOffset);
        require(bytes && Driver::get().memory.covered(dptr, bytes, false));
        CUDA_RESOURCE_DESC to{};
        to.resType = CU_RESOURCE_TYPE_LINEAR;
        to.res.linear.devPtr = dptr - offset;
        to.res.linear.sizeInBytes = bytes + offset;
        r.bind(to);
        if (ByteOffset) *ByteOffset = offset;
    });
}
CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr, size_t Pitch) {
    return with(hTexRef, [&](Reference& r) {
        require(desc && dptr % alignment == 0 && Pitch % 32 == 0);
        CUDA_RESOURCE_DESC to{};
        to.resType = CU_RESOURCE_TYPE_PITCH2D;
        to.res.pitch2D.devPtr = dptr;
        to.res.pitch2D.format = r.format = desc->Format;
        to.res.pitch2D.numChannels = r.channels = desc->NumChannels;
        to.res.pitch2D.width = desc->Width;
        to.res.pitch2D.height = desc->Height;
        to.res.pitch2D.pitchInBytes = Pitch;
        r.bind(to);
    });
}
CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
    return with(reinterpret_cast<CUtexref>(hSurfRef), [&](Reference& r) {
        require(Flags == 0 && r.surface);
        r.bind(of_array(hArray));
    });
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr* pdptr, CUtexref hTexRef) {
    return get(pdptr, hTexRef, [](const Reference& r) {
        return r.resource.resType == CU_RESOURCE_TYPE_PITCH2D
                   ? r.resource.res.pitch2D.devPtr
                   : only(r.bound && r.resource.resType == CU_RESOURCE_TYPE_LINEAR, r.resource.res.linear.devPtr);
    });
}
CUresult cuTexRefGetArray(CUarray* phArray, CUtexref hTexRef) {
    return get(phArray, hTexRef, [](const Reference& r) {
        return only(r.bound && r.resource.resType == CU_RESOURCE_TYPE_ARRAY, r.resource.res.array.hArray);
    });
}
CUresult cuTexRefGetMipmappedArray(CUmipmappedArray* phMipmappedArray, CUtexref hTexRef) {
    return get(phMipmappedArray, hTexRef, [](const Reference& r) {
        return only(r.bound && r.resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                    r.resource.res.mipmap.hMipmappedArray);
    });
}
CUresult cuSurfRefGetArray(CUarray* phArray, CUsurfref hSurfRef) {
    return cuTexRefGetArray(phArray, reinterpret_cast<CUtexref>(hSurfRef));
}

// ---- how it reads ---------------------------------------------------------------------------------------------------

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
    return set(hTexRef, [&](Reference& r) {
        require(NumPackedComponents == 1 || NumPackedComponents == 2 || NumPackedComponents == 4);
        r.format = fmt;
        r.channels = static_cast<unsigned>(NumPackedComponents);
    });
}
CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
    return set(hTexRef, [&](Reference& r) {
        require(dim >= 0 && dim < 3 && am <= CU_TR_ADDRESS_MODE_BORDER);
        r.texture.addressMode[dim] = am;
    });
}
CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    return set(hTexRef, [&](Reference& r) { r.texture.filterMode = fm; });
}
CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    return set(hTexRef, [&](Reference& r) { r.texture.mipmapFilterMode = fm; });
}
CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
    return set(hTexRef, [&](Reference& r) { r.texture.mipmapLevelBias = bias; });
}
CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp) {
    return set(hTexRef, [&](Reference& r) {
        r.texture.minMipmapLevelClamp = minMipmapLevelClamp;
        r.texture.maxMipmapLevelClamp = maxMipmapLevelClamp;
    });
}
CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
    return set(hTexRef, [&](Reference& r) { r.texture.maxAnisotropy = maxAniso; });
}
CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float* pBorderColor) {
    return set(hTexRef, [&](Reference& r) {
        require(pBorderColor);
        std::copy_n(pBorderColor, 4, r.texture.borderColor);
    });
}
CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
    return set(hTexRef, [&](Reference& r) {
        require((Flags & ~0x7fu) == 0);
        r.texture.flags = Flags;
    });
}

CUresult cuTexRefGetFormat(CUarray_format* pFormat, int* pNumChannels, CUtexref hTexRef) {
    return with(hTexRef, [&](const Reference& r) {
        if (pFormat) *pFormat = r.format;
        if (pNumChannels) *pNumChannels = static_cast<int>(r.channels);
    });
}
CUresult cuTexRefGetAddressMode(CUaddress_mode* pam, CUtexref hTexRef, int dim) {
    return get(pam, hTexRef, [&](const Reference& r) {
        require(dim >= 0 && dim < 3);
        return r.texture.addressMode[dim];
    });
}
CUresult cuTexRefGetFilterMode(CUfilter_mode* pfm, CUtexref hTexRef) {
    return get(pfm, hTexRef, [](const Reference& r) { return r.texture.filterMode; });
}
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode* pfm, CUtexref hTexRef) {
    return get(pfm, hTexRef, [](const Reference& r) { return r.texture.mipmapFilterMode; });
}
CUresult cuTexRefGetMipmapLevelBias(float* pbias, CUtexref hTexRef) {
    return get(pbias, hTexRef, [](const Reference& r) { return r.texture.mipmapLevelBias; });
}
CUresult cuTexRefGetMipmapLevelClamp(float* pminMipmapLevelClamp, float* pmaxMipmapLevelClamp, CUtexref hTexRef) {
    return with(hTexRef, [&](const Reference& r) {
        if (pminMipmapLevelClamp) *pminMipmapLevelClamp = r.texture.minMipmapLevelClamp;
        if (pmaxMipmapLevelClamp) *pmaxMipmapLevelClamp = r.texture.maxMipmapLevelClamp;
    });
}
CUresult cuTexRefGetMaxAnisotropy(int* pmaxAniso, CUtexref hTexRef) {
    return get(pmaxAniso, hTexRef, [](const Reference& r) { return static_cast<int>(r.texture.maxAnisotropy); });
}
CUresult cuTexRefGetBorderColor(float* pBorderColor, CUtexref hTexRef) {
    return with(hTexRef, [&](const Reference& r) {
        require(pBorderColor);
        std::ranges::copy(r.texture.borderColor, pBorderColor);
    });
}
CUresult cuTexRefGetFlags(unsigned int* pFlags, CUtexref hTexRef) {
    return get(pFlags, hTexRef, [](const Reference& r) { return r.texture.flags; });
}
