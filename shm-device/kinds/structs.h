// SPDX-License-Identifier: Apache-2.0
// structs.h: how CUDA's structs cross, both halves of each in one place. Most hold plain values and cross as they are.
// One that names memory, or an object, or holds what has no meaning on the other side, says here
//
//   guest   sent       how it is sent: memory named by the address at which the device finds it
//   guest   touched    which device memory the command may read or write now: touch(address, bytes)
//   host    admit      whether the driver may have it; ids become the driver's handles, what cannot cross is refused
//   host    disclose   what of the driver's answer the guest may see: ids for handles, nothing of the host's process
//
// The kinds that take structs (kinds.h, array_kinds.h) call these. "guest" and "host" are what the kinds' are: the
// client's end of the channel, and the worker's session.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "shm-device/kinds/verdict.h"

namespace barcuda {

template <class S> struct PlainCrossing {
    static S sent(const S& s, auto&) { return s; }
    static constexpr bool touches = false;
    static void touched(const S&, auto&&) {}
    static Verdict admit(S&, auto&) { return fine; }
    static void disclose(S&, auto&) {}
};
template <class S> struct Crossing : PlainCrossing<S> {};

namespace crossing {

// A handle in a struct is the guest's id, or the driver's own.
template <class T> Verdict to_handle(T& handle, auto& host) {
    return host.find(reinterpret_cast<std::uint64_t>(handle), handle);
}
template <class T> void to_id(T& handle, auto& host) { handle = reinterpret_cast<T>(std::uint64_t{host.name(handle)}); }

// From the first byte to the last of `height` rows, as the program gives them: the host checks whether that is sane.
constexpr std::size_t rows_bytes(std::size_t pitch, std::size_t width, std::size_t height) {
    return height ? (height - 1) * pitch + width : 0;
}

// Bytes of one element of a texture over linear memory. 0: no such texture exists.
constexpr std::uint64_t element_bytes(CUarray_format format, unsigned channels) {
    if (channels < 1 || channels > 4) return 0;
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8: return channels;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_SIGNED_INT16:
        case CU_AD_FORMAT_HALF: return channels * 2;
        case CU_AD_FORMAT_UNSIGNED_INT32:
        case CU_AD_FORMAT_SIGNED_INT32:
        case CU_AD_FORMAT_FLOAT: return channels * 4;
        // These say themselves how many channels there are.
        case CU_AD_FORMAT_UNORM_INT8X1:
        case CU_AD_FORMAT_SNORM_INT8X1: return 1;
        case CU_AD_FORMAT_UNORM_INT8X2:
        case CU_AD_FORMAT_SNORM_INT8X2:
        case CU_AD_FORMAT_UNORM_INT16X1:
        case CU_AD_FORMAT_SNORM_INT16X1: return 2;
        case CU_AD_FORMAT_UNORM_INT8X4:
        case CU_AD_FORMAT_SNORM_INT8X4:
        case CU_AD_FORMAT_UNORM_INT16X2:
        case CU_AD_FORMAT_SNORM_INT16X2:
        case CU_AD_FORMAT_UNORM_INT_101010_2: return 4;
        case CU_AD_FORMAT_UNORM_INT16X4:
        case CU_AD_FORMAT_SNORM_INT16X4: return 8;
        default: return 0;
    }
}

}  // namespace crossing

// ---- what a texture or a surface is made of
template <> struct Crossing<CUDA_RESOURCE_DESC> : PlainCrossing<CUDA_RESOURCE_DESC> {
    static CUDA_RESOURCE_DESC sent(CUDA_RESOURCE_DESC d, auto& guest) {
        if (d.resType == CU_RESOURCE_TYPE_LINEAR) d.res.linear.devPtr = guest.on_device(d.res.linear.devPtr, 1);
        if (d.resType == CU_RESOURCE_TYPE_PITCH2D) {
            auto& rows = d.res.pitch2D;
            const std::uint64_t width = rows.width * crossing::element_bytes(rows.format, rows.numChannels);
            rows.devPtr = guest.on_device(rows.devPtr, crossing::rows_bytes(rows.pitchInBytes, width, rows.height));
        }
        return d;
    }
    static Verdict admit(CUDA_RESOURCE_DESC& d, auto& host) {
        switch (d.resType) {
            case CU_RESOURCE_TYPE_ARRAY: return crossing::to_handle(d.res.array.hArray, host);
            case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return crossing::to_handle(d.res.mipmap.hMipmappedArray, host);
            // Programs say more than they have, which drivers take. Only the GPU reads it, as a kernel may anyway.
            case CU_RESOURCE_TYPE_LINEAR: return host.reachable(d.res.linear.devPtr, d.res.linear.sizeInBytes ? 1 : 0);
            case CU_RESOURCE_TYPE_PITCH2D: {
                const auto& rows = d.res.pitch2D;
                const std::uint64_t element = crossing::element_bytes(rows.format, rows.numChannels);
                if (element == 0 || rows.width > ~std::uint64_t{0} / element) return bad_value;
                return host.reachable_rows(rows.devPtr, rows.pitchInBytes, rows.width * element, rows.height);
            }
        }
        return bad_value;
    }
    static void disclose(CUDA_RESOURCE_DESC& d, auto& host) {
        if (d.resType == CU_RESOURCE_TYPE_ARRAY) crossing::to_id(d.res.array.hArray, host);
        if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) crossing::to_id(d.res.mipmap.hMipmappedArray, host);
    }
};

// ---- memory. Processes of a guest share it by file descriptors (guest-allocator/driver/descriptor.h). A guest cannot
// have handles of other kinds, nor memory that the program's own CPU should reach at the driver's address: they are
// refused, not ignored.
namespace crossing {
constexpr Verdict shared_as(CUmemAllocationHandleType type) {
    return type == CU_MEM_HANDLE_TYPE_NONE || type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? fine : not_supported;
}
constexpr bool on_host(const CUmemLocation& location) {
    return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}
}  // namespace crossing
template <> struct Crossing<CUmemPoolProps> : PlainCrossing<CUmemPoolProps> {
    static Verdict admit(CUmemPoolProps& props, auto&) {
        props.win32SecurityAttributes = nullptr;
        if (crossing::on_host(props.location) || props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
            return not_supported;
        return crossing::shared_as(props.handleTypes);
    }
    static void disclose(CUmemPoolProps& props, auto&) { props.win32SecurityAttributes = nullptr; }
};
template <> struct Crossing<CUmemAllocationProp> : PlainCrossing<CUmemAllocationProp> {
    static Verdict admit(CUmemAllocationProp& prop, auto&) {
        prop.win32HandleMetaData = nullptr;
        return crossing::shared_as(prop.requestedHandleTypes);
    }
    static void disclose(CUmemAllocationProp& prop, auto&) { prop.win32HandleMetaData = nullptr; }
};

// ---- copies of boxes; the guest has said of each side where the device finds it (guest-allocator/driver/box.cc)
template <> struct Crossing<CUDA_MEMCPY3D> : PlainCrossing<CUDA_MEMCPY3D> {
    static constexpr bool touches = true;
    static void touched(const CUDA_MEMCPY3D& c, auto&& touch) {
        std::uint64_t bytes = 0;
        if (c.srcMemoryType == CU_MEMORYTYPE_DEVICE &&
            measured({c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ}, c, bytes))
            touch(c.srcDevice, bytes);
        if (c.dstMemoryType == CU_MEMORYTYPE_DEVICE &&
            measured({c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ}, c, bytes))
            touch(c.dstDevice, bytes);
    }
    static Verdict admit(CUDA_MEMCPY3D& c, auto& host) {
        c.reserved0 = c.reserved1 = nullptr;
        if (c.srcMemoryType != CU_MEMORYTYPE_ARRAY) c.srcArray = nullptr;
        if (c.dstMemoryType != CU_MEMORYTYPE_ARRAY) c.dstArray = nullptr;
        if (c.srcMemoryType != CU_MEMORYTYPE_HOST) c.srcHost = nullptr;
        if (c.dstMemoryType != CU_MEMORYTYPE_HOST) c.dstHost = nullptr;
        const Verdict source = side(c.srcMemoryType, c.srcArray, c.srcHost, c.srcDevice,
                                    {c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ}, c, host);
        return source.ok() ? side(c.dstMemoryType, c.dstArray, c.dstHost, c.dstDevice,
                                  {c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ}, c, host)
                           : source;
    }
    static void disclose(CUDA_MEMCPY3D& c, auto& host) {
        if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY) crossing::to_id(c.srcArray, host);
        else c.srcArray = nullptr;
        if (c.dstMemoryType == CU_MEMORYTYPE_ARRAY) crossing::to_id(c.dstArray, host);
        else c.dstArray = nullptr;
        c.reserved0 = c.reserved1 = nullptr;
    }

  private:
    struct Place {
        std::uint64_t pitch, rows, x, y, z;
    };
    static Verdict side(CUmemorytype type, CUarray& array, const void* in_host, CUdeviceptr in_device,
                        const Place& place, const CUDA_MEMCPY3D& c, auto& host) {
        std::uint64_t bytes = 0;
        switch (type) {
            case CU_MEMORYTYPE_ARRAY: return crossing::to_handle(array, host);
            case CU_MEMORYTYPE_DEVICE: return measured(place, c, bytes) ? host.reachable(in_device, bytes) : bad_value;
            case CU_MEMORYTYPE_HOST:
                return measured(place, c, bytes) && (bytes == 0 || host.holds(in_host, bytes)) ? fine : bad_value;
            default: return a_lie;  // the library says which of the two a unified address is
        }
    }
    // The bytes of linear memory from its start to the last that is copied. False: no memory is as large.
    static bool measured(const Place& p, const CUDA_MEMCPY3D& c, std::uint64_t& bytes) {
        // No number that a copy needs reaches 2^40; below, sums and one product fit into 64 bits with room to spare,
        // and the second product is checked.
        constexpr std::uint64_t most = 1ull << 40;
        for (std::uint64_t n : {p.pitch, p.rows, p.x, p.y, p.z, c.WidthInBytes, c.Height, c.Depth})
            if (n >= most) return false;
        bytes = 0;
        if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0) return true;
        const std::uint64_t last_z = p.z + c.Depth - 1, last_y = p.y + c.Height - 1, width = p.x + c.WidthInBytes;
        if ((last_y || last_z) && p.pitch < width) return false;
        if (last_z && p.rows <= last_y) return false;
        const unsigned __int128 lines = static_cast<unsigned __int128>(last_z) * p.rows + last_y;
        if (lines * p.pitch >= static_cast<unsigned __int128>(1) << 62) return false;
        bytes = static_cast<std::uint64_t>(lines * p.pitch) + width;
        return true;
    }
};

// ---- words that a stream waits for or writes
template <> struct Crossing<CUstreamBatchMemOpParams> : PlainCrossing<CUstreamBatchMemOpParams> {
    static CUstreamBatchMemOpParams sent(CUstreamBatchMemOpParams o, auto& guest) {
        if (const unsigned bytes = bytes_of(o)) o.waitValue.address = guest.on_device(o.waitValue.address, bytes);
        return o;
    }
    static constexpr bool touches = true;
    static void touched(const CUstreamBatchMemOpParams& o, auto&& touch) { touch(o.waitValue.address, bytes_of(o)); }
    static Verdict admit(CUstreamBatchMemOpParams& o, auto& host) {
        switch (o.operation) {
            case CU_STREAM_MEM_OP_BARRIER:
            case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return fine;
            default: return bytes_of(o) ? host.reachable(o.waitValue.address, bytes_of(o)) : bad_value;
        }
    }

  private:
    static unsigned bytes_of(const CUstreamBatchMemOpParams& o) {  // of the word that it names; 0: it names none
        switch (o.operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            case CU_STREAM_MEM_OP_WRITE_VALUE_32: return 4;
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            case CU_STREAM_MEM_OP_WRITE_VALUE_64: return 8;
            default: return 0;
        }
    }
};

// ---- graphs
template <> struct Crossing<CUgraphNode> : PlainCrossing<CUgraphNode> {
    static Verdict admit(CUgraphNode& node, auto& host) { return crossing::to_handle(node, host); }
};
template <> struct Crossing<CUDA_MEMSET_NODE_PARAMS> : PlainCrossing<CUDA_MEMSET_NODE_PARAMS> {
    static CUDA_MEMSET_NODE_PARAMS sent(CUDA_MEMSET_NODE_PARAMS s, auto& guest) {
        s.dst = guest.on_device(s.dst, crossing::rows_bytes(s.pitch, s.width * s.elementSize, s.height));
        return s;
    }
    static Verdict admit(CUDA_MEMSET_NODE_PARAMS& s, auto& host) {
        if (s.elementSize != 1 && s.elementSize != 2 && s.elementSize != 4) return bad_value;
        if (s.width > ~std::size_t{0} / s.elementSize) return bad_value;
        return host.reachable_rows(s.dst, s.pitch, s.width * s.elementSize, s.height);
    }
};
template <> struct Crossing<CUDA_MEM_ALLOC_NODE_PARAMS> : PlainCrossing<CUDA_MEM_ALLOC_NODE_PARAMS> {
    static Verdict admit(CUDA_MEM_ALLOC_NODE_PARAMS& node, auto& host) {
        if (node.accessDescCount) return not_supported;
        node.accessDescs = nullptr;
        return Crossing<CUmemPoolProps>::admit(node.poolProps, host);
    }
    static void disclose(CUDA_MEM_ALLOC_NODE_PARAMS& node, auto& host) {
        node.accessDescs = nullptr;
        node.accessDescCount = 0;
        Crossing<CUmemPoolProps>::disclose(node.poolProps, host);
    }
};
template <> struct Crossing<CUgraphExecUpdateResultInfo> : PlainCrossing<CUgraphExecUpdateResultInfo> {
    static void disclose(CUgraphExecUpdateResultInfo& info, auto& host) {
        crossing::to_id(info.errorNode, host);
        crossing::to_id(info.errorFromNode, host);
    }
};

}  // namespace barcuda
