// SPDX-License-Identifier: Apache-2.0
// box.cc: copies of rows and boxes, and to and from arrays. Every form of the API becomes one description,
// CUDA_MEMCPY3D, and crosses as one command. Host memory in the region is named in place (zero-copy); host memory
// elsewhere is packed into, or unpacked from, a buffer in the region or a command, piece by piece.
#include <string.h>

#include <algorithm>
#include <memory>
#include <new>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/graph_copy.h"
#include "guest-allocator/driver/sides.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::guest {
namespace {

constexpr std::size_t most_piece = 4 << 20;  // bytes of one staged piece

bool pinned(const Side& s, const CUDA_MEMCPY3D& c) {
    const Bounds b(s, c);
    return guest::pinned(b.first, b.bytes);
}

bool takes_bytes_along(const Side& s, const CUDA_MEMCPY3D& c, Until until) {
    const std::size_t bytes = c.WidthInBytes * c.Height * c.Depth;
    return bytes <= most_inline_bytes && !pinned(s, c) && guest::takes_bytes_along(Bounds(s, c).first, bytes, until);
}

// Calls see(address, bytes) with all that lies between the first byte and the last, if it is the device's. False: no
// memory is as large, or it says so.
template <class See> bool seen(const Side& s, const CUDA_MEMCPY3D& c, See see) {
    if (s.type != CU_MEMORYTYPE_DEVICE) return true;
    std::size_t planes, rows, bytes;
    if (__builtin_mul_overflow(s.z + c.Depth - 1, s.rows, &planes) ||
        __builtin_mul_overflow(planes + s.y + c.Height - 1, s.pitch, &rows) ||
        __builtin_add_overflow(rows, s.x + c.WidthInBytes, &bytes))
        return false;
    return see(reinterpret_cast<std::uint64_t>(s.start), bytes);
}

// All of the box lies in that side's array, or it is not known how large the array is (of compressed blocks, planes):
// then the driver says what it thinks of the copy.
bool in_array(CUarray array, const Side& s, const CUDA_MEMCPY3D& c) {
    if (s.type != CU_MEMORYTYPE_ARRAY) return true;
    ArrayShape shape;
    if (!array_shapes.find(array, shape)) {
        CUDA_ARRAY3D_DESCRIPTOR d{};
        if (command<Op::cuArray3DGetDescriptor_v2>(&d, array) != CUDA_SUCCESS) return true;
        const std::size_t element = crossing::element_bytes(d.Format, d.NumChannels);
        if (!element) return true;
        shape = {d.Width * element, std::max<std::size_t>(d.Height, 1), std::max<std::size_t>(d.Depth, 1)};
        array_shapes.note(array, shape);
    }
    return shape.holds(s.x, s.y, s.z, c);
}

// Posted if the guest knows all memory that it names; else the driver says at the call what it thinks of it.
CUresult send(CUDA_MEMCPY3D& c, const Side& from, const Side& to, CUstream stream, bool captured) {
    const auto known = [](std::uint64_t p, std::size_t bytes) { return look_at(p, bytes) == Named::known; };
    if (captured || (seen(from, c, known) && seen(to, c, known))) return command<Op::cuMemcpy3DAsync_v2>(&c, stream);
    const CUresult r = command<Op::cuMemcpy3DAsync_v2, true>(&c, stream);
    if (r == CUDA_SUCCESS && !graphs_allocate.load(std::memory_order_relaxed)) {
        seen(from, c, is_there);
        seen(to, c, is_there);
    }
    return r;
}

// A box is cut into pieces of at most `most` bytes: of whole planes, of rows of one plane, or of a part of one row.
struct Cut {
    std::size_t width, rows, planes;
    Cut(const CUDA_MEMCPY3D& c, std::size_t most)
        : width(std::min(c.WidthInBytes, most)),
          rows(width < c.WidthInBytes ? 1 : std::clamp<std::size_t>(most / width, 1, c.Height)),
          planes(rows < c.Height ? 1 : std::clamp<std::size_t>(most / (width * rows), 1, c.Depth)) {}
    std::size_t bytes() const { return width * rows * planes; }
    bool whole(const CUDA_MEMCPY3D& c) const {
        return width == c.WidthInBytes && rows == c.Height && planes == c.Depth;
    }
};

// A host side outside the region: each piece is packed into a buffer in the region, or unpacked from it, and has been
// copied when this returns. What is small on its way to the device rides in a command, and so does everything where the
// region is full.
CUresult staged(CUDA_MEMCPY3D c, const Side& source, const Side& target, bool from_host, CUstream stream) {
    const Side &host = from_host ? source : target, &device = from_host ? target : source;
    const std::size_t width = c.WidthInBytes, height = c.Height, depth = c.Depth;
    const Cut small(c, most_inline_bytes), large(c, most_piece);
    void* const buffer = from_host && small.whole(c) ? nullptr : heap::staging_alloc(large.bytes());
    const Cut& cut = buffer ? large : small;
    const std::unique_ptr<std::byte[]> own(buffer ? nullptr : new (std::nothrow) std::byte[cut.bytes()]);
    auto* const packed = buffer ? static_cast<std::byte*>(buffer) : own.get();
    if (!packed) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!buffer) c.srcArray = c.dstArray = from_host ? c.dstArray : c.srcArray;  // the device's side stands on both
    if (buffer) heap::statistics.staged.add(width * height * depth);
    else heap::statistics.inlined.add(width * height * depth);

    const auto move = [&](std::size_t x, std::size_t y, std::size_t z) {
        c.WidthInBytes = std::min(cut.width, width - x);
        c.Height = std::min(cut.rows, height - y);
        c.Depth = std::min(cut.planes, depth - z);
        const std::size_t bytes = c.WidthInBytes * c.Height * c.Depth;
        const auto each_row = [&](auto copy) {
            for (std::size_t p = 0; p < c.Depth; ++p)
                for (std::size_t i = 0; i < c.Height; ++i)
                    copy(host.row(y + i, z + p) + x, packed + (p * c.Height + i) * c.WidthInBytes);
        };
        Side far = device;
        far.x += x;
        far.y += y;
        far.z += z;
        const Side near = buffer ? Side{CU_MEMORYTYPE_HOST, packed, c.WidthInBytes, c.Height, 0, 0, 0} : far;
        put_source(c, from_host ? near : far);
        put_target(c, from_host ? far : near);
        if (from_host) each_row([&](const std::byte* row, std::byte* p) { memcpy(p, row, c.WidthInBytes); });
        CUresult r = CUDA_SUCCESS;
        if (buffer) {
            r = command<Op::cuMemcpy3DAsync_v2>(&c, stream);
            if (const CUresult w = wait_for(stream); r == CUDA_SUCCESS) r = w;
        } else if (from_host) {
            r = command<Op::box_in>(&c, static_cast<const void*>(packed), bytes, stream);
        } else {
            r = CUDA_ERROR_NOT_READY;
            while (r == CUDA_ERROR_NOT_READY)
                if (r = wait_for(stream); r == CUDA_SUCCESS)
                    r = finished(command<Op::box_out>(&c, static_cast<void*>(packed), bytes, stream));
        }
        if (!from_host && r == CUDA_SUCCESS)
            each_row([&](std::byte* row, const std::byte* p) { memcpy(row, p, c.WidthInBytes); });
        return r;
    };
    CUresult r = CUDA_SUCCESS;
    for (std::size_t z = 0; z < depth && r == CUDA_SUCCESS; z += cut.planes)
        for (std::size_t y = 0; y < height && r == CUDA_SUCCESS; y += cut.rows)
            for (std::size_t x = 0; x < width && r == CUDA_SUCCESS; x += cut.width) r = move(x, y, z);
    if (buffer) heap::staging_free(buffer);
    return r;
}

}  // namespace

CUresult copy_box(const CUDA_MEMCPY3D& asked, CUstream stream, Until until) noexcept {
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    CUDA_MEMCPY3D c = asked;
    if (is_empty(c)) return CUDA_SUCCESS;
    Side source, target;
    if (CUresult r = find_sides(c, source, target); r != CUDA_SUCCESS) return r;
    const bool from_host = source.type == CU_MEMORYTYPE_HOST, to_host = target.type == CU_MEMORYTYPE_HOST;
    Side from, to;  // as the device finds them
    const bool near_source = reaches(source, c, from), near_target = reaches(target, c, to);
    const bool captured = capturing(stream);
    if (!captured && !(in_array(c.srcArray, source, c) && in_array(c.dstArray, target, c)))
        return CUDA_ERROR_INVALID_VALUE;
    if (captured && !(near_source && near_target)) return capture_staged(c, stream);
    if (from_host && to_host && !captured) {  // in the stream's order
        if (CUresult r = wait_for(stream); r != CUDA_SUCCESS) return r;
        for (std::size_t z = 0; z < c.Depth; ++z)
            for (std::size_t y = 0; y < c.Height; ++y) memmove(target.row(y, z), source.row(y, z), c.WidthInBytes);
        return CUDA_SUCCESS;
    }
    const bool along = from_host && near_source && !captured && takes_bytes_along(source, c, until);
    if (!near_source || !near_target || along) {
        const CUresult r = staged(c, source, target, from_host, stream);
        return r == CUDA_SUCCESS && until == Until::done && several_contexts() ? wait_for(stream) : r;  // as in copy.cc
    }
    put_source(c, from);
    put_target(c, to);
    if (from_host || to_host) heap::statistics.zero_copy.add(c.WidthInBytes * c.Height * c.Depth);
    if (to_host) {
        const Bounds b(to, c);
        heap::break_copy_on_write(b.first, b.bytes);
    }
    const CUresult r = send(c, from, to, stream, captured);
    if (r != CUDA_SUCCESS || captured) return r;
    const bool free_to_go =
        until == Until::reusable && (!from_host || pinned(source, c)) && (!to_host || pinned(target, c));
    return free_to_go ? CUDA_SUCCESS : wait_for(stream);
}

namespace {

CUDA_MEMCPY3D box(const CUDA_MEMCPY2D& r) {
    CUDA_MEMCPY3D c{};
    c.srcXInBytes = r.srcXInBytes;
    c.srcY = r.srcY;
    c.srcMemoryType = r.srcMemoryType;
    c.srcHost = r.srcHost;
    c.srcDevice = r.srcDevice;
    c.srcArray = r.srcArray;
    c.srcPitch = r.srcPitch;
    c.dstXInBytes = r.dstXInBytes;
    c.dstY = r.dstY;
    c.dstMemoryType = r.dstMemoryType;
    c.dstHost = r.dstHost;
    c.dstDevice = r.dstDevice;
    c.dstArray = r.dstArray;
    c.dstPitch = r.dstPitch;
    c.WidthInBytes = r.WidthInBytes;
    c.Height = r.Height;
    c.Depth = 1;
    return c;
}
CUDA_MEMCPY3D box(const CUDA_MEMCPY3D_PEER& p) {  // addresses are unique across devices
    return {p.srcXInBytes, p.srcY,          p.srcZ,     p.srcLOD,    p.srcMemoryType, p.srcHost, p.srcDevice,
            p.srcArray,    nullptr,         p.srcPitch, p.srcHeight, p.dstXInBytes,   p.dstY,    p.dstZ,
            p.dstLOD,      p.dstMemoryType, p.dstHost,  p.dstDevice, p.dstArray,      nullptr,   p.dstPitch,
            p.dstHeight,   p.WidthInBytes,  p.Height,   p.Depth};
}
const CUDA_MEMCPY3D& box(const CUDA_MEMCPY3D& c) { return c; }

// For a batch: sizes and places are in elements if an array takes part; rows and layers of a side are as tight as the
// copy unless it says more.
CUresult box(const CUDA_MEMCPY3D_BATCH_OP& o, CUDA_MEMCPY3D& c) {
    std::size_t element = 1;
    for (const CUmemcpy3DOperand* side : {&o.src, &o.dst}) {
        if (side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
            CUDA_ARRAY3D_DESCRIPTOR d{};
            const CUresult r = command<Op::cuArray3DGetDescriptor_v2>(&d, side->op.array.array);
            if (r != CUDA_SUCCESS) return r;
            if (!(element = crossing::element_bytes(d.Format, d.NumChannels))) return CUDA_ERROR_NOT_SUPPORTED;
        } else if (side->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
                   (side->op.ptr.rowLength && side->op.ptr.rowLength < o.extent.width) ||
                   (side->op.ptr.layerHeight && side->op.ptr.layerHeight < o.extent.height)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (!o.extent.width || !o.extent.height || !o.extent.depth) return CUDA_ERROR_INVALID_VALUE;
    if (o.srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || o.srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
        return CUDA_ERROR_INVALID_VALUE;
    c = {};
    c.WidthInBytes = o.extent.width * element;
    c.Height = o.extent.height;
    c.Depth = o.extent.depth;
    const auto pitch = [&](auto& p) { return (p.rowLength ? p.rowLength : o.extent.width) * element; };
    const auto rows = [&](auto& p) { return p.layerHeight ? p.layerHeight : o.extent.height; };
    if (const auto& from = o.src.op; o.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c.srcArray = from.array.array;
        c.srcXInBytes = from.array.offset.x * element;
        c.srcY = from.array.offset.y;
        c.srcZ = from.array.offset.z;
    } else {
        c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
        c.srcDevice = from.ptr.ptr;
        c.srcPitch = pitch(from.ptr);
        c.srcHeight = rows(from.ptr);
    }
    if (const auto& to = o.dst.op; o.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = to.array.array;
        c.dstXInBytes = to.array.offset.x * element;
        c.dstY = to.array.offset.y;
        c.dstZ = to.array.offset.z;
    } else {
        c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        c.dstDevice = to.ptr.ptr;
        c.dstPitch = pitch(to.ptr);
        c.dstHeight = rows(to.ptr);
    }
    return CUDA_SUCCESS;
}

template <class Description> CUresult copy(const Description* d, CUstream stream, Until until) {
    return d ? copy_box(box(*d), stream, until) : CUDA_ERROR_INVALID_VALUE;
}

// A run of bytes of an array's first row.
struct RunEnd {
    CUmemorytype type;
    const void* memory;
    CUarray array;
    std::size_t x;
};
RunEnd run(CUarray array, std::size_t x) { return {CU_MEMORYTYPE_ARRAY, nullptr, array, x}; }
RunEnd run(CUdeviceptr p) { return {CU_MEMORYTYPE_UNIFIED, reinterpret_cast<void*>(p), nullptr, 0}; }
RunEnd run(const void* p) { return {CU_MEMORYTYPE_HOST, p, nullptr, 0}; }
CUresult copy_run(RunEnd to, RunEnd from, std::size_t bytes, CUstream stream, Until until) {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = from.type;
    c.srcHost = from.memory;
    c.srcDevice = reinterpret_cast<CUdeviceptr>(from.memory);
    c.srcArray = from.array;
    c.srcXInBytes = from.x;
    c.dstMemoryType = to.type;
    c.dstHost = const_cast<void*>(to.memory);
    c.dstDevice = reinterpret_cast<CUdeviceptr>(to.memory);
    c.dstArray = to.array;
    c.dstXInBytes = to.x;
    c.WidthInBytes = bytes;
    c.Height = c.Depth = 1;
    return copy_box(c, stream, until);
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) { return copy(c, nullptr, Until::done); }
CU cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* c) { return copy(c, nullptr, Until::done); }
CU cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream s) { return copy(c, s, Until::reusable); }
CU cuMemcpy3D_v2(const CUDA_MEMCPY3D* c) { return copy(c, nullptr, Until::done); }
CU cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream s) { return copy(c, s, Until::reusable); }
CU cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* c) { return copy(c, nullptr, Until::done); }
CU cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* c, CUstream s) { return copy(c, s, Until::reusable); }

CU cuMemcpyDtoA_v2(CUarray to, size_t x, CUdeviceptr from, size_t bytes) {
    return copy_run(run(to, x), run(from), bytes, nullptr, Until::done);
}
CU cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t x, size_t bytes) {
    return copy_run(run(to), run(from, x), bytes, nullptr, Until::done);
}
CU cuMemcpyHtoA_v2(CUarray to, size_t x, const void* from, size_t bytes) {
    return copy_run(run(to, x), run(from), bytes, nullptr, Until::done);
}
CU cuMemcpyAtoH_v2(void* to, CUarray from, size_t x, size_t bytes) {
    return copy_run(run(to), run(from, x), bytes, nullptr, Until::done);
}
CU cuMemcpyAtoA_v2(CUarray to, size_t to_x, CUarray from, size_t from_x, size_t bytes) {
    return copy_run(run(to, to_x), run(from, from_x), bytes, nullptr, Until::done);
}
CU cuMemcpyHtoAAsync_v2(CUarray to, size_t x, const void* from, size_t bytes, CUstream s) {
    return copy_run(run(to, x), run(from), bytes, s, Until::reusable);
}
CU cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t x, size_t bytes, CUstream s) {
    return copy_run(run(to), run(from, x), bytes, s, Until::reusable);
}

// A batch promises no order among its copies: one after another is one of the allowed orders. A source that may be gone
// when the call returns has been read by then.
static Until until(CUmemcpySrcAccessOrder order) {
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? Until::done : Until::reusable;
}
CU cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                         CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, CUstream s) {
    if (!to || !from || !bytes || count == 0) return CUDA_ERROR_INVALID_VALUE;
    // A stream of the program's own, and attributes for each copy, in the order of the copies.
    if (!attributes || !indices || !attribute_count || attribute_count > count) return CUDA_ERROR_INVALID_VALUE;
    if (!real(s) || s == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < attribute_count; ++k) {
        const CUmemcpySrcAccessOrder order = attributes[k].srcAccessOrder;
        if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
            (k ? indices[k] <= indices[k - 1] : indices[k] != 0) || indices[k] >= count)
            return CUDA_ERROR_INVALID_VALUE;
    }
    Until now = Until::reusable;
    for (size_t i = 0, k = 0; i < count; ++i) {
        for (; k < attribute_count && indices[k] <= i; ++k) now = until(attributes[k].srcAccessOrder);
        if (CUresult r = copy_any(to[i], from[i], bytes[i], s, now); r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
}
CU cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags, CUstream s) {
    if (!operations || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        CUDA_MEMCPY3D c;
        if (CUresult r = box(operations[i], c); r != CUDA_SUCCESS) return r;
        if (CUresult r = copy_box(c, s, until(operations[i].srcAccessOrder)); r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
}
