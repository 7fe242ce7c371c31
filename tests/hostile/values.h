// SPDX-License-Identifier: Apache-2.0
// values.h: values of CUDA's types that a driver mostly takes: numbers, enumerations, structs.
#pragma once
#include <concepts>

#include "shm-device/kinds/library_kinds.h"
#include "tests/hostile/generator.h"

namespace barcuda::hostile {
namespace values {
constexpr std::uint64_t page = 2 << 20;  // of virtual memory: what drivers map at a time
}

template <class T> struct Value {
    static T make(Generator& g) {
        Random& r = g.random;
        if constexpr (std::same_as<T, std::size_t>) return r.chance(60) ? std::size_t{1} << r.below(13) : r.below(256);
        else if constexpr (std::same_as<T, unsigned long long>)  // an address, or another number
            return r.chance(70) ? g.address(64) : r.below(16);
        else if constexpr (std::integral<T>) return static_cast<T>(r.chance(75) ? 0 : r.chance(60) ? 1 : r.below(64));
        else if constexpr (std::floating_point<T>) return T{0.5};
        else if constexpr (std::is_enum_v<T>) return static_cast<T>(r.below(4));
        else return T{};
    }
};

// ---- enumerations: from, to
#define BETWEEN(type, first, last)                                                                  \
    template <> struct Value<type> {                                                                \
        static type make(Generator& g) { return static_cast<type>(g.random.between(first, last)); } \
    };
BETWEEN(CUlimit, 0, 7)
BETWEEN(CUfunction_attribute, 0, 15)
BETWEEN(CUdevice_P2PAttribute, 1, 5)
BETWEEN(CUmemPool_attribute, 1, 8)
BETWEEN(CUpointer_attribute, 1, 18)
BETWEEN(CUstreamCaptureMode, 2, 2)  // another one forbids this thread most calls
BETWEEN(CUmemAllocationType, 1, 1)
BETWEEN(CUmemAllocationGranularity_flags, 0, 1)
BETWEEN(CUjitInputType, 1, 1)
BETWEEN(CUarray_format, 1, 3)
BETWEEN(CUgraphConditionalNodeType, 0, 1)
BETWEEN(CUtensorMapDataType, 7, 7)
BETWEEN(cudaDataType, CUDA_R_32F, CUDA_R_32F)
BETWEEN(cublasComputeType_t, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F)
BETWEEN(cublasGemmAlgo_t, CUBLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT)
BETWEEN(cublasSideMode_t, 0, 1)
BETWEEN(cublasFillMode_t, 0, 1)
BETWEEN(cublasDiagType_t, 0, 1)
BETWEEN(cublasOperation_t, 0, 2)
BETWEEN(libraryPropertyType, 0, 2)
#undef BETWEEN
template <> struct Value<curandRngType> {
    static curandRngType make(Generator& g) {
        return g.random.one_of({CURAND_RNG_PSEUDO_DEFAULT, CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10,
                                CURAND_RNG_QUASI_SOBOL32, CURAND_RNG_QUASI_SOBOL64});
    }
};
template <> struct Value<curandOrdering> {
    static curandOrdering make(Generator& g) {
        return g.random.one_of({CURAND_ORDERING_PSEUDO_DEFAULT, CURAND_ORDERING_QUASI_DEFAULT});
    }
};
template <> struct Value<CUlaunchAttributeID> {
    static CUlaunchAttributeID make(Generator& g) {
        return g.random.one_of({CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW});
    }
};

// ---- structs
template <> struct Value<CUmemLocation> {
    static CUmemLocation make(Generator&) {
        CUmemLocation l{};
        l.type = CU_MEM_LOCATION_TYPE_DEVICE;
        return l;
    }
};
template <> struct Value<CUmemAccessDesc> {
    static CUmemAccessDesc make(Generator& g) {
        return {Value<CUmemLocation>::make(g), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
};
template <> struct Value<CUmemPoolProps> {
    static CUmemPoolProps make(Generator& g) {
        CUmemPoolProps p{};
        p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.handleTypes = g.random.chance(50) ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
        p.location = Value<CUmemLocation>::make(g);
        return p;
    }
};
template <> struct Value<CUmemAllocationProp> {
    static CUmemAllocationProp make(Generator& g) {
        CUmemAllocationProp p{};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        p.location = Value<CUmemLocation>::make(g);
        return p;
    }
};
template <> struct Value<CUDA_ARRAY_DESCRIPTOR> {
    static CUDA_ARRAY_DESCRIPTOR make(Generator& g) {
        return {g.random.between(16, 64), g.random.below(3) * 16, CU_AD_FORMAT_FLOAT, 1};
    }
};
template <> struct Value<CUDA_ARRAY3D_DESCRIPTOR> {
    static CUDA_ARRAY3D_DESCRIPTOR make(Generator& g) {
        const std::size_t height = g.random.below(2) * 32;
        return {g.random.between(16, 64), height, height ? g.random.below(2) * 4 : 0,
                CU_AD_FORMAT_FLOAT,       1,      g.random.chance(50) ? CUDA_ARRAY3D_SURFACE_LDST : 0u};
    }
};
template <> struct Value<CUDA_RESOURCE_DESC> {
    static CUDA_RESOURCE_DESC make(Generator& g) {
        CUDA_RESOURCE_DESC d{};
        switch (g.random.below(4)) {
            case 0:
                d.resType = CU_RESOURCE_TYPE_LINEAR;
                d.res.linear = {g.address(4096) & ~511ull, CU_AD_FORMAT_FLOAT, 1, 1024};
                break;
            case 1:
                d.resType = CU_RESOURCE_TYPE_PITCH2D;
                d.res.pitch2D = {g.address(8192) & ~511ull, CU_AD_FORMAT_FLOAT, 1, 32, 8, 512};
                break;
            case 2:
                d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
                d.res.mipmap.hMipmappedArray = std::bit_cast<CUmipmappedArray>(g.object(tag<CUmipmappedArray>()));
                break;
            default:
                d.resType = CU_RESOURCE_TYPE_ARRAY;
                d.res.array.hArray = std::bit_cast<CUarray>(g.object(tag<CUarray>()));
        }
        return d;
    }
};
template <> struct Value<CUDA_TEXTURE_DESC> {
    static CUDA_TEXTURE_DESC make(Generator& g) {
        CUDA_TEXTURE_DESC d{};
        d.flags = g.random.chance(50) ? CU_TRSF_NORMALIZED_COORDINATES : 0;
        for (auto& mode : d.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
        return d;
    }
};
template <> struct Value<CUDA_RESOURCE_VIEW_DESC> {
    static CUDA_RESOURCE_VIEW_DESC make(Generator& g) {
        CUDA_RESOURCE_VIEW_DESC d{};
        d.format = static_cast<CUresourceViewFormat>(g.random.between(0, 34));
        d.width = 32;
        d.height = g.random.below(2) * 32;
        return d;
    }
};
template <> struct Value<CUDA_MEMCPY3D> {  // 32 bytes x 4 x 2
    static CUDA_MEMCPY3D make(Generator& g) {
        CUDA_MEMCPY3D c{};
        const auto side = [&](CUmemorytype& type, CUdeviceptr& device, auto& host, CUarray& array, std::size_t& pitch,
                              std::size_t& height) {
            pitch = 64;
            height = 4;
            switch (g.random.below(4)) {
                case 0:
                    type = CU_MEMORYTYPE_HOST;
                    host = g.heap(1024);
                    break;
                case 1:
                    type = CU_MEMORYTYPE_ARRAY;
                    array = std::bit_cast<CUarray>(g.object(tag<CUarray>()));
                    break;
                default: type = CU_MEMORYTYPE_DEVICE; device = g.address(1024);
            }
        };
        side(c.srcMemoryType, c.srcDevice, c.srcHost, c.srcArray, c.srcPitch, c.srcHeight);
        side(c.dstMemoryType, c.dstDevice, c.dstHost, c.dstArray, c.dstPitch, c.dstHeight);
        const bool array = c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY;
        c.WidthInBytes = 32;
        c.Height = array ? 1 : 4;
        c.Depth = array ? 1 : 2;
        return c;
    }
};
template <> struct Value<CUDA_MEMSET_NODE_PARAMS> {
    static CUDA_MEMSET_NODE_PARAMS make(Generator& g) {
        const bool rows = g.random.chance(50);
        return {g.address(4096), 256, 7, 4, g.random.between(1, 64), rows ? g.random.between(1, 8) : 1};
    }
};
template <> struct Value<CUDA_MEM_ALLOC_NODE_PARAMS> {
    static CUDA_MEM_ALLOC_NODE_PARAMS make(Generator& g) {
        CUDA_MEM_ALLOC_NODE_PARAMS p{};
        p.poolProps = Value<CUmemPoolProps>::make(g);
        p.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
        p.bytesize = g.random.between(1, 1 << 16);
        return p;
    }
};
template <> struct Value<CUstreamBatchMemOpParams> {
    static CUstreamBatchMemOpParams make(Generator& g) {
        CUstreamBatchMemOpParams o{};
        if (g.random.chance(30)) {
            o.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
            o.waitValue.flags = CU_STREAM_WAIT_VALUE_NOR;  // any but ~0
            o.waitValue.address = g.address(64) & ~7ull;
        } else {
            o.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
            o.writeValue.address = g.address(64) & ~7ull;
        }
        return o;
    }
};
template <> struct Value<CUgraphNode> {
    static CUgraphNode make(Generator& g) { return std::bit_cast<CUgraphNode>(g.object(tag<CUgraphNode>(), g.graph)); }
};
template <> struct Value<CUipcMemHandle> {
    static CUipcMemHandle make(Generator& g) { return token<CUipcMemHandle>(g, Op::cuIpcGetMemHandle); }
    template <class T> static T token(Generator& g, Op maker) {
        T t{};
        const Tokens& all = g.known.tokens();
        const Token& known = all.all[g.random.below(std::min<std::uint64_t>(all.count, Tokens::room))];
        if (known.made_by != maker) g.want(maker);
        std::memcpy(&t, known.bytes, std::min(sizeof t, sizeof known.bytes));
        return t;
    }
};
template <> struct Value<CUipcEventHandle> {
    static CUipcEventHandle make(Generator& g) {
        return Value<CUipcMemHandle>::token<CUipcEventHandle>(g, Op::cuIpcGetEventHandle);
    }
};
template <> struct Value<CUmemPoolPtrExportData> {
    static CUmemPoolPtrExportData make(Generator& g) {
        return Value<CUipcMemHandle>::token<CUmemPoolPtrExportData>(g, Op::cuMemPoolExportPointer);
    }
};
template <> struct Value<ext::Token> {
    static ext::Token make(Generator& g) {
        return Value<CUipcMemHandle>::token<ext::Token>(g, g.random.one_of({Op::export_memory, Op::export_pool}));
    }
};

// ---- ours
template <> struct Value<ext::Logs> {
    static ext::Logs make(Generator& g) { return static_cast<ext::Logs>(g.random.below(3)); }
};
template <> struct Value<ext::Fence> {
    static ext::Fence make(Generator& g) { return g.fence(); }
};
template <> struct Value<ext::Shape> {
    static ext::Shape make(Generator& g) {
        ext::Shape s{};
        s.grid[0] = static_cast<unsigned>(g.random.between(1, 4));
        s.grid[1] = s.grid[2] = 1;
        s.block[0] = static_cast<unsigned>(g.random.between(1, 64));
        s.block[1] = s.block[2] = 1;
        return s;
    }
};
template <> struct Value<ext::Split> {
    static ext::Split make(Generator& g) {
        return {0, static_cast<unsigned>(g.random.below(4)), static_cast<unsigned>(g.random.below(2)),
                static_cast<unsigned>(g.random.below(3))};
    }
};
template <> struct Value<ext::Parts> {
    static ext::Parts make(Generator& g) {
        ext::Parts parts{};
        parts.of = Value<ext::Split>::make(g);
        if (parts.of.groups == 0) return parts;
        parts.count = static_cast<unsigned>(g.random.below(2));
        parts.which[0] = g.random.chance(20) ? ext::Parts::rest : 0;
        return parts;
    }
};
template <> struct Value<ext::TensorMap> {
    static ext::TensorMap make(Generator& g) {
        ext::TensorMap t{};
        t.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        t.rank = 2;
        t.address = g.address(64 * 256) & ~255ull;
        t.dimensions[0] = t.dimensions[1] = 64;
        t.strides[0] = 256;
        for (unsigned i = 0; i < 2; ++i) {
            t.box[i] = 16;
            t.element_strides[i] = 1;
        }
        return t;
    }
};

}  // namespace barcuda::hostile
