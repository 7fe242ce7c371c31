// SPDX-License-Identifier: Apache-2.0
// pointers.h: each kind of memory in each call that takes an address: what it is, freeing, registering,
// filling, words of streams.
#pragma once
#include "fills.h"
#include "things.h"

namespace {

inline string value_of(CUpointer_attribute attribute, const Place& place) {
    unsigned char v[64];
    memset(v, 0xee, sizeof v);
    const int rc = cuPointerGetAttribute(v, attribute, D(place.p));
    string said = number(rc);
    int i;
    long long n;
    void* q;
    memcpy(&i, v, 4);
    memcpy(&n, v, 8);
    memcpy(&q, v, 8);
    if (static_cast<unsigned>(i) == 0xeeeeeeee) return said + " untouched";
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: {
            CUcontext now = nullptr;
            cuCtxGetCurrent(&now);
            return said + (!q ? " null" : q == now ? " current" : " other");
        }
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return said + " " + at(place, q);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
            CUmemoryPool p = nullptr;
            cuDeviceGetDefaultMemPool(&p, 0);
            return said + (!q ? " null" : q == p ? " default" : " other");
        }
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return said + (n ? " some" : " 0");
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return said + " " + number(v[0]);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return said + " " + number(n);
        default: return said + " " + number(i);
    }
}

inline void pointer_attributes() {
    start();
    for (const string& kind : kinds) {
        const Place place = make(kind);
        for (int a = 0; a <= 23; ++a)
            question(kind + "/attribute_" + number(a),
                     [&] { return value_of(static_cast<CUpointer_attribute>(a), place); });
        question(kind + "/cudaPointerGetAttributes", [&] {
            cudaPointerAttributes a{};
            const string said = kept(cudaPointerGetAttributes(&a, place.p));
            return said + " type=" + number(a.type) + " device=" + number(a.device) +
                   " d=" + at(place, a.devicePointer) + " h=" + at(place, a.hostPointer);
        });
        question(kind + "/several", [&] {
            CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                           CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                           CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
            unsigned type = 77;
            int device = 77;
            unsigned managed = 0;
            size_t size = 77;
            void* p = nullptr;
            void* data[] = {&type, &device, &managed, &size, &p};
            const int rc = cuPointerGetAttributes(5, names, data, D(place.p));
            return number(rc) + " " + number(type) + " " + number(device) + " " + number(managed & 255) + " " +
                   number(size) + " " + at(place, p);
        });
        question(kind + "/address_range", [&] {
            CUdeviceptr base = 0;
            size_t size = 0;
            const int rc = cuMemGetAddressRange(&base, &size, D(place.p));
            return number(rc) + " " + at(place, P(base)) + " " + number(size);
        });
        question(kind + "/address_range_base", [&] {
            CUdeviceptr b;
            return number(cuMemGetAddressRange(&b, nullptr, D(place.p)));
        });
        question(kind + "/address_range_size", [&] {
            size_t n;
            return number(cuMemGetAddressRange(nullptr, &n, D(place.p)));
        });
        question(kind + "/host_pointer", [&] {
            CUdeviceptr b = 0;
            const int rc = cuMemHostGetDevicePointer(&b, place.p, 0);
            return number(rc) + " " + at(place, P(b));
        });
        question(kind + "/host_pointer_flags", [&] {
            CUdeviceptr b = 0;
            return number(cuMemHostGetDevicePointer(&b, place.p, 1));
        });
        question(kind + "/cudaHostGetDevicePointer", [&] {
            void* b = nullptr;
            const string s = kept(cudaHostGetDevicePointer(&b, place.p, 0));
            return s + " " + at(place, b);
        });
        question(kind + "/host_flags", [&] {
            unsigned f = 77;
            const int rc = cuMemHostGetFlags(&f, place.p);
            return number(rc) + " " + number(f);
        });
        question(kind + "/cudaHostGetFlags", [&] {
            unsigned f = 77;
            const string s = kept(cudaHostGetFlags(&f, place.p));
            return s + " " + number(f);
        });
        question(kind + "/set_sync", [&] {
            int yes = 1;
            const int rc = cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, D(place.p));
            return number(rc) + " " + value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, place);
        });
        question(kind + "/set_other", [&] {
            int yes = 1;
            return number(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_BUFFER_ID, D(place.p)));
        });
        question(kind + "/retain", [&] {
            CUmemGenericAllocationHandle h = 0;
            const int rc = cuMemRetainAllocationHandle(&h, place.p);
            if (!rc) cuMemRelease(h);
            return number(rc);
        });
        question(kind + "/access", [&] {
            unsigned long long f = 77;
            CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
            const int rc = cuMemGetAccess(&f, &l, D(place.p));
            return number(rc) + " " + number(f);
        });
        question(kind + "/ipc", [&] {
            CUipcMemHandle h;
            return number(cuIpcGetMemHandle(&h, D(place.p)));
        });
        question(kind + "/advise", [&] {
            CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
            return number(cuMemAdvise(D(place.p), 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, l));
        });
        question(kind + "/range_attribute", [&] {
            int v = 77;
            const int rc = cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, D(place.p), 4096);
            return number(rc) + " " + number(v);
        });
        question(kind + "/last_prefetch", [&] {
            int v = 77;
            const int rc =
                cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, D(place.p), 4096);
            return number(rc) + " " + number(v);
        });
        question(kind + "/attach", [&] {
            const int rc = cuStreamAttachMemAsync(nullptr, D(place.p), 0, CU_MEM_ATTACH_GLOBAL);
            return number(rc);
        });
        question(kind + "/prefetch", [&] {
            CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
            const int rc = cuMemPrefetchAsync(D(place.p), 4096, l, 0, nullptr);
            return number(rc) + " " + number(cuCtxSynchronize());
        });
        question(kind + "/unmap",
                 [&] { return kind.starts_with("vmm") ? "" : number(cuMemUnmap(D(place.p), 2 << 20)); });
        question(kind + "/set_access", [&] {
            CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            return number(cuMemSetAccess(D(place.p), 2 << 20, &d, 1));
        });
    }
}

struct OfAddress {
    const char* name;
    std::function<string(char*)> call;
};
inline const std::vector<OfAddress> frees = {
    {"cuMemFree", [](char* p) { return number(cuMemFree(D(p))); }},
    {"cuMemFreeHost", [](char* p) { return number(cuMemFreeHost(p)); }},
    {"cuMemFreeAsync", [](char* p) { return number(cuMemFreeAsync(D(p), nullptr)); }},
    {"cudaFree", [](char* p) { return kept(cudaFree(p)); }},
    {"cudaFreeHost", [](char* p) { return kept(cudaFreeHost(p)); }},
    {"cudaFreeAsync", [](char* p) { return kept(cudaFreeAsync(p, nullptr)); }},
    {"cuMemHostUnregister", [](char* p) { return number(cuMemHostUnregister(p)); }},
    {"cudaHostUnregister", [](char* p) { return kept(cudaHostUnregister(p)); }},
    {"cuMemAddressFree", [](char* p) { return number(cuMemAddressFree(D(p), 2 << 20)); }},
    {"cuIpcCloseMemHandle", [](char* p) { return number(cuIpcCloseMemHandle(D(p))); }},
};
inline void freeing() {
    start();
    ask::looks_behind = true;
    for (const string& kind : kinds) {
        for (const OfAddress& f : frees) {
            question(kind + "/" + f.name, [&] {
                const Place place = make(kind);
                const string first = f.call(place.p);
                cuCtxSynchronize();
                return first + " then " + f.call(place.p);
            });
        }
    }
}
inline void registering() {
    start();
    ask::looks_behind = true;
    for (const string& kind : kinds) {
        for (unsigned flags : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 10u, 16u, 64u}) {
            question(kind + "/flags_" + number(flags), [&] {
                const Place place = make(kind);
                const string first = kept(cudaHostRegister(place.p, 4096, flags));
                const string second = number(cuMemHostRegister(place.p, 4096, flags));
                const string end = kept(cudaHostUnregister(place.p));
                return first + " " + second + " " + end;
            });
        }
        question(kind + "/size_0", [&] { return kept(cudaHostRegister(make(kind).p, 0, 0)); });
        question(kind + "/size_huge", [&] { return kept(cudaHostRegister(make(kind).p, 1ull << 46, 0)); });
    }
    char* const pages =
        static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto both = [&](char* p, size_t n, unsigned flags) {
        const string a = kept(cudaHostRegister(p, n, flags));
        return a + " " + kept(cudaHostUnregister(p));
    };
    question("odd_address", [&] { return both(pages + 5, 100, 0); });
    question("odd_size", [&] { return both(pages, 100, 0); });
    question("overlap", [&] {
        cudaHostRegister(pages, 8192, 0);
        const string a = kept(cudaHostRegister(pages + 4096, 8192, 0));
        const string b = kept(cudaHostRegister(pages, 4096, 0));
        return a + " " + b + " " + kept(cudaHostUnregister(pages));
    });
    question("same_page", [&] {
        cudaHostRegister(pages, 100, 0);
        const string a = kept(cudaHostRegister(pages + 200, 100, 0));
        const string b = kept(cudaHostUnregister(pages + 200));
        return a + " " + b + " " + kept(cudaHostUnregister(pages));
    });
    question("unregister_mid", [&] {
        cudaHostRegister(pages, 8192, 0);
        const string a = kept(cudaHostUnregister(pages + 4096));
        return a + " " + kept(cudaHostUnregister(pages));
    });
    question("hole", [&] {
        munmap(pages + 65536, 4096);
        return both(pages + 32768, 65536, 0);
    });
    question("none", [&] {
        mprotect(pages + 131072, 4096, PROT_NONE);
        return both(pages + 131072, 4096, 0);
    });
    question("none_read_only", [&] { return both(pages + 131072, 4096, cudaHostRegisterReadOnly); });
    question("readonly", [&] {
        mprotect(pages + 135168, 4096, PROT_READ);
        return both(pages + 135168, 4096, 0);
    });
    question("readonly_flag", [&] { return both(pages + 135168, 4096, cudaHostRegisterReadOnly); });
    question("constant", [&] { return both(const_cast<char*>(constant_memory), 64, 0); });
    question("constant_flag", [&] { return both(const_cast<char*>(constant_memory), 64, cudaHostRegisterReadOnly); });
    question("stack", [&] {
        char here[8192];
        return both(here, 8192, 0);
    });
    question("shared", [&] {
        char* p = static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        return both(p, 65536, 0);
    });
    question("file", [&] {
        const int f = open("/proc/self/exe", O_RDONLY);
        char* p = static_cast<char*>(mmap(nullptr, 65536, PROT_READ, MAP_PRIVATE, f, 0));
        close(f);
        return both(p, 65536, 0) + " " + both(p, 65536, cudaHostRegisterReadOnly);
    });
    question("file_private_writable", [&] {
        const int f = open("/proc/self/exe", O_RDONLY);
        char* p = static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0));
        close(f);
        return both(p, 65536, 0);
    });
    question("unmapped_since", [&] {
        char* p = host_pages();
        cudaHostRegister(p, room, 0);
        munmap(p, room);
        return kept(cudaHostUnregister(p));
    });
}

// ---- fills
inline void filling() {
    start();
    ask::looks_behind = true;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    std::vector<Fill> forms = driver_fills(s);
    forms.push_back({"cudaMemset", 1, [](CUdeviceptr p, size_t n) {
                         const int rc = cudaMemset(P(p), 1, n);
                         cudaGetLastError();
                         return rc;
                     }});
    forms.push_back({"cudaMemset2D", 2, [](CUdeviceptr p, size_t n) {
                         const int rc = cudaMemset2D(P(p), n ? n : 1, 1, n, 2);
                         cudaGetLastError();
                         return rc;
                     }});
    for (const string& kind : kinds) {
        for (const Fill& form : forms) {
            const Place place = make(kind);
            const size_t fits = place.left / form.unit;
            question(kind + "/" + form.name + "/none", [&] { return number(form.call(D(place.p), 0)); });
            question(kind + "/" + form.name + "/few", [&] { return number(form.call(D(place.p), 8)); });
            question(kind + "/" + form.name + "/fits", [&] { return number(form.call(D(place.p), fits)); });
            question(kind + "/" + form.name + "/past", [&] { return number(form.call(D(place.p), fits + 16)); });
            question(kind + "/" + form.name + "/far", [&] { return number(form.call(D(place.p), 1ull << 36)); });
            if (form.unit > 1)
                question(kind + "/" + form.name + "/odd", [&] { return number(form.call(D(place.p) + 1, 8)); });
        }
    }
}

// ---- stream memory operations
inline void stream_memory() {
    start();
    ask::looks_behind = true;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (const string& kind : kinds) {
        const Place place = make(kind);
        if (place.cpu && kind != "static") memset(place.p, 0, place.left < 64 ? place.left : 64);
        for (unsigned odd : {0u, 1u, 2u, 4u}) {
            const CUdeviceptr p = D(place.p) + odd;
            const string name = kind + "/at_" + number(odd);
            question(name + "/write32", [&] { return number(cuStreamWriteValue32(s, p, 0, 0)); });
            question(name + "/write64", [&] { return number(cuStreamWriteValue64(s, p, 0, 0)); });
            question(name + "/wait32", [&] { return number(cuStreamWaitValue32(s, p, 0, CU_STREAM_WAIT_VALUE_GEQ)); });
            question(name + "/wait64", [&] { return number(cuStreamWaitValue64(s, p, 0, CU_STREAM_WAIT_VALUE_GEQ)); });
        }
        question(kind + "/write_flags", [&] { return number(cuStreamWriteValue32(s, D(place.p), 0, 0x10)); });
        question(kind + "/wait_flags", [&] { return number(cuStreamWaitValue32(s, D(place.p), 0, 0x40)); });
        question(kind + "/barrier", [&] {
            return number(cuStreamWriteValue32(s, D(place.p), 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
        });
        question(kind + "/batch", [&] {
            CUstreamBatchMemOpParams ops[2]{};
            ops[0].operation = ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
            ops[0].writeValue.address = ops[1].writeValue.address = D(place.p);
            return number(cuStreamBatchMemOp(s, 2, ops, 0));
        });
    }
    const Place place = make("dev");
    for (unsigned flags = 0; flags < 8; ++flags)
        question("flags_" + number(flags), [&] {
            return flags == 1 || flags == 2 || flags == 3 || flags > 4
                       ? number(cuStreamWaitValue32(s, D(place.p), flags == 1 ? 0 : 0, flags & 4))
                       : number(cuStreamWaitValue32(s, D(place.p), 0, flags));
        });
    CUstreamBatchMemOpParams ops[2]{};
    ops[0].operation = ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = D(place.p);
    ops[1].writeValue.address = D(place.p) + 4;
    question("batch_none", [&] { return number(cuStreamBatchMemOp(s, 0, ops, 0)); });
    question("batch_null", [&] { return number(cuStreamBatchMemOp(s, 1, nullptr, 0)); });
    question("batch_flags", [&] { return number(cuStreamBatchMemOp(s, 2, ops, 1)); });
    question("batch_many", [&] { return number(cuStreamBatchMemOp(s, 1000, ops, 0)); });
    question("batch_operation", [&] {
        CUstreamBatchMemOpParams bad[1]{};
        bad[0].operation = static_cast<CUstreamBatchMemOpType>(77);
        bad[0].writeValue.address = D(place.p);
        return number(cuStreamBatchMemOp(s, 1, bad, 0));
    });
    question("batch_barrier", [&] {
        CUstreamBatchMemOpParams op[1]{};
        op[0].operation = CU_STREAM_MEM_OP_BARRIER;
        return number(cuStreamBatchMemOp(s, 1, op, 0));
    });
    question("batch_flush", [&] {
        CUstreamBatchMemOpParams op[1]{};
        op[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
        return number(cuStreamBatchMemOp(s, 1, op, 0));
    });
    question("batch_second_bad", [&] {
        ops[1].writeValue.address += 1;
        return number(cuStreamBatchMemOp(s, 2, ops, 0));
    });
    question("legacy", [&] { return number(cuStreamWriteValue32(nullptr, D(place.p), 0, 0)); });
    question("per_thread", [&] { return number(cuStreamWriteValue32(CU_STREAM_PER_THREAD, D(place.p), 0, 0)); });
}

}  // namespace
