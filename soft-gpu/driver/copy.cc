// SPDX-License-Identifier: Apache-2.0
// copy.cc: see copy.h.
#include "soft-gpu/driver/copy.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

// Whose work is before and after a copy of this memory. Mapped memory is a device's, and no context's.
CUcontext context_of(const Allocation& memory) {
    return memory.kind == Allocation::Kind::mapped ? Driver::get().device(memory.device).primary->handle()
                                                   : memory.context;
}

// One side of a copy, given by a pointer; `span`: bytes from its first to its last.
Copy::Side linear(std::uintptr_t address, Where where, std::size_t span, bool for_writing) {
    Memory& memory = Driver::get().memory;
    const auto known = memory.find(address);
    const bool device = where == Where::device || known.has_value() || memory.heap().contains(address);
    const bool checked = where == Where::host ? memory.heap().contains(address) : device;
    if (span != 0) require(address != 0 && (!checked || memory.covered(address, span, for_writing)));
    const bool on_device = known && known->on_device();
    return {.start = reinterpret_cast<std::byte*>(address),
            .pageable = !device,
            .device = on_device,
            .context = on_device ? context_of(*known) : nullptr,
            .checked = checked || known ? span : 0};
}

// Checks memory when the work runs: missing memory is a fault of the context.
void require_there(std::uintptr_t address, std::size_t bytes, bool for_writing) {
    if (bytes == 0 || Driver::get().memory.covered(address, bytes, for_writing)) return;
    char text[100];
    std::snprintf(text, sizeof text, "a copy or fill of %zu bytes at %#lx, which are not there any more", bytes,
                  static_cast<unsigned long>(address));
    fail(CUDA_ERROR_ILLEGAL_ADDRESS, text);
}
void require_there(const Copy::Side& side, bool for_writing) {
    require_there(reinterpret_cast<std::uintptr_t>(side.start), side.checked, for_writing);
}

Where where_of(CUmemorytype type) {
    switch (type) {
        case CU_MEMORYTYPE_HOST: return Where::host;
        case CU_MEMORYTYPE_DEVICE: return Where::device;
        case CU_MEMORYTYPE_UNIFIED: return Where::any;
        default: fail(CUDA_ERROR_INVALID_VALUE);
    }
}

// Bytes from the box's first to its last, counted from `first`; throws if they do not fit into 64 bits.
std::size_t span_of(std::size_t width, std::size_t height, std::size_t depth, std::size_t row, std::size_t slice) {
    const auto last =
        static_cast<unsigned __int128>(depth - 1) * slice + static_cast<unsigned __int128>(height - 1) * row + width;
    require(last <= SIZE_MAX / 2);
    return static_cast<std::size_t>(last);
}

struct Corner {
    std::size_t x, y, z;
};

Copy::Side array_side(CUarray handle, Corner at, const CUDA_MEMCPY3D& box) {
    auto array = Driver::get().arrays.find(handle);
    require(at.x <= array->row_bytes && box.WidthInBytes <= array->row_bytes - at.x);
    require(at.y <= array->rows && box.Height <= array->rows - at.y);
    require(at.z <= array->slices && box.Depth <= array->slices - at.z);
    std::byte* const start = array->base + at.z * array->slice_bytes + at.y * array->row_bytes + at.x;
    const CUcontext context = array->context;
    return {.start = start,
            .row = array->row_bytes,
            .slice = array->slice_bytes,
            .array = std::move(array),
            .device = true,
            .context = context};
}

Copy::Side memory_side(CUmemorytype type, const void* host, CUdeviceptr device, Corner at, std::size_t pitch,
                       std::size_t height, const CUDA_MEMCPY3D& box, bool for_writing) {
    // A box of one row needs no pitch, one of one slice no height.
    const std::size_t row = pitch ? pitch : at.x + box.WidthInBytes;
    const std::size_t rows = height ? height : at.y + box.Height;
    require(box.Height <= 1 || row >= at.x + box.WidthInBytes);
    require(box.Depth <= 1 || rows >= at.y + box.Height);
    require(row <= (std::size_t{1} << 40) && rows <= (std::size_t{1} << 40) && at.z <= (std::size_t{1} << 40));
    const auto base =
        type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host) : static_cast<std::uintptr_t>(device);
    const std::size_t before = span_of(at.x, at.y + 1, at.z + 1, row, row * rows);
    Copy::Side side = linear(base + before, where_of(type),
                             span_of(box.WidthInBytes, box.Height, box.Depth, row, row * rows), for_writing);
    side.row = row;
    side.slice = row * rows;
    return side;
}

}  // namespace

namespace {
constexpr std::size_t most_staged = 64 << 20;
std::atomic<std::size_t> staged_by_all{0};
}  // namespace

std::shared_ptr<const Staged> Staged::of(const std::byte* start, std::size_t bytes) {
    if (staged_by_all.fetch_add(bytes) > most_staged - bytes) {
        staged_by_all -= bytes;
        return nullptr;
    }
    try {
        return std::make_shared<const Staged>(std::vector<std::byte>(start, start + bytes));
    } catch (const std::bad_alloc&) {
        staged_by_all -= bytes;
        return nullptr;
    }
}
Staged::~Staged() { staged_by_all -= bytes.size(); }

std::shared_ptr<Copy> copy_line(std::uintptr_t to, Where to_where, std::uintptr_t from, Where from_where,
                                std::size_t bytes) {
    auto copy = std::make_shared<Copy>();
    copy->from = linear(from, from_where, bytes, false);
    copy->to = linear(to, to_where, bytes, true);
    copy->width = bytes;
    const auto type = [](const Copy::Side& side) { return side.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED; };
    CUDA_MEMCPY3D& asked = copy->asked;
    asked.srcMemoryType = type(copy->from);
    asked.srcDevice = from;
    asked.dstMemoryType = type(copy->to);
    asked.dstDevice = to;
    asked.WidthInBytes = bytes;
    asked.Height = asked.Depth = 1;
    return copy;
}

std::shared_ptr<Copy> copy_box(const CUDA_MEMCPY3D& box) {
    auto copy = std::make_shared<Copy>();
    copy->asked = box;
    copy->width = box.WidthInBytes;
    copy->height = box.Height;
    copy->depth = box.Depth;
    if (copy->bytes() == 0) return copy;
    require(box.srcLOD == 0 && box.dstLOD == 0);
    const Corner source{box.srcXInBytes, box.srcY, box.srcZ}, target{box.dstXInBytes, box.dstY, box.dstZ};
    copy->from = box.srcMemoryType == CU_MEMORYTYPE_ARRAY
                     ? array_side(box.srcArray, source, box)
                     : memory_side(box.srcMemoryType, box.srcHost, box.srcDevice, source, box.srcPitch, box.srcHeight,
                                   box, false);
    copy->to = box.dstMemoryType == CU_MEMORYTYPE_ARRAY ? array_side(box.dstArray, target, box)
                                                        : memory_side(box.dstMemoryType, box.dstHost, box.dstDevice,
                                                                      target, box.dstPitch, box.dstHeight, box, true);
    return copy;
}

namespace {
// The fields that all of CUDA's copy structures share.
template <class Flat> CUDA_MEMCPY3D common(const Flat& from) {
    CUDA_MEMCPY3D box{};
    box.srcXInBytes = from.srcXInBytes;
    box.srcY = from.srcY;
    box.srcMemoryType = from.srcMemoryType;
    box.srcHost = from.srcHost;
    box.srcDevice = from.srcDevice;
    box.srcArray = from.srcArray;
    box.srcPitch = from.srcPitch;
    box.dstXInBytes = from.dstXInBytes;
    box.dstY = from.dstY;
    box.dstMemoryType = from.dstMemoryType;
    box.dstHost = from.dstHost;
    box.dstDevice = from.dstDevice;
    box.dstArray = from.dstArray;
    box.dstPitch = from.dstPitch;
    box.WidthInBytes = from.WidthInBytes;
    box.Height = from.Height;
    box.Depth = 1;
    return box;
}
}  // namespace

CUDA_MEMCPY3D as_box(const CUDA_MEMCPY2D& rectangle) { return common(rectangle); }

CUDA_MEMCPY3D as_box(const CUDA_MEMCPY3D_PEER& from) {
    CUDA_MEMCPY3D box = common(from);
    box.srcZ = from.srcZ;
    box.srcLOD = from.srcLOD;
    box.srcHeight = from.srcHeight;
    box.dstZ = from.dstZ;
    box.dstLOD = from.dstLOD;
    box.dstHeight = from.dstHeight;
    box.Depth = from.Depth;
    return box;
}

namespace {
tracing::Work::Memory kind_of(const Copy::Side& side) {
    using Kind = tracing::Work::Memory;
    return side.array ? Kind::array : side.device ? Kind::device : side.pageable ? Kind::pageable : Kind::pinned;
}
void locate(const Copy::Side& side, const Context& here, std::uint64_t& context, int& device) {
    const auto its = side.device ? Driver::get().contexts.try_find(side.context) : nullptr;
    context = its ? its->id : here.id;
    device = its ? its->device : here.device;
}
}  // namespace

void Copy::run(Context& context) {
    if (bytes() == 0) return;
    require_there(to, true);
    tracing::Timed timed([&](tracing::Work& work) {
        work.kind = tracing::Work::Kind::copy;
        work.device = context.device;
        work.context = context.id;
        work.bytes = bytes();
        work.from = kind_of(from);
        work.to = kind_of(to);
        locate(from, context, work.from_context, work.from_device);
        locate(to, context, work.to_context, work.to_device);
    });
    if (staged) {
        std::memcpy(to.start, staged->bytes.data(), staged->bytes.size());
        return timed.done();
    }
    require_there(from, false);
    for (std::size_t z = 0; z < depth; ++z)
        for (std::size_t y = 0; y < height; ++y)
            std::memmove(to.start + z * to.slice + y * to.row, from.start + z * from.slice + y * from.row, width);
    timed.done();
}

bool is_there(const CUDA_MEMSET_NODE_PARAMS& asked) {
    return asked.width == 0 || asked.height == 0 ||
           Driver::get().memory.covered(
               asked.dst, span_of(asked.width * asked.elementSize, asked.height, 1, asked.pitch, 0), true);
}

std::shared_ptr<Fill> fill(const CUDA_MEMSET_NODE_PARAMS& asked, bool captured) {
    auto fill = std::make_shared<Fill>();
    fill->asked = asked;
    fill->captured = captured;
    const std::size_t size = asked.elementSize;
    require(size == 1 || size == 2 || size == 4);
    if (asked.width == 0 || asked.height == 0) return fill;
    require(asked.width <= SIZE_MAX / 8 / size && asked.dst % size == 0);
    require(asked.height == 1 || (asked.pitch >= asked.width * size && asked.pitch % size == 0));
    require(captured || is_there(asked));
    return fill;
}

void Fill::run(Context& context) {
    if (asked.width == 0 || asked.height == 0) return;
    require_there(asked.dst, span_of(asked.width * asked.elementSize, asked.height, 1, asked.pitch, 0), true);
    tracing::Timed timed([&](tracing::Work& work) {
        work.kind = tracing::Work::Kind::fill;
        work.device = context.device;
        work.context = context.id;
        work.bytes = asked.width * asked.elementSize * asked.height;
        work.value = asked.value;
    });
    for (std::size_t y = 0; y < asked.height; ++y) {
        void* const row = reinterpret_cast<void*>(asked.dst + y * asked.pitch);
        switch (asked.elementSize) {
            case 1: std::memset(row, static_cast<int>(asked.value & 0xff), asked.width); break;
            case 2:
                std::fill_n(static_cast<std::uint16_t*>(row), asked.width, static_cast<std::uint16_t>(asked.value));
                break;
            default: std::fill_n(static_cast<std::uint32_t*>(row), asked.width, asked.value); break;
        }
    }
    timed.done();
}

}  // namespace barcuda::soft::driver
