// SPDX-License-Identifier: Apache-2.0
// copies.h: copies of every form, between memory of every kind.
#pragma once
#include "things.h"

namespace {

// What can be copied from or to without ending the process, and what cannot.
inline const std::vector<string> copied = {"dev", "dev_freed", "pinned", "registered", "managed", "pool",
                                           "vmm", "heap",      "pages",  "static",     "symbol",  "null"};

inline void set(const Place& place, int value, size_t n) {
    if (place.cpu) memset(place.p, value, n);
    else if (place.left) cudaMemset(place.p, value, n);
}
inline int first(const Place& place) {
    int value = -1;
    if (place.cpu) return *place.p;
    if (!place.left || cudaMemcpy(&value, place.p, 1, cudaMemcpyDeviceToHost)) return -1;
    return value & 255;
}

// Copies by the runtime's kinds; and whether the bytes have arrived.
inline void by_kind(bool async) {
    start();
    ask::looks_behind = true;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (const string& to : copied) {
        for (const string& from : copied) {
            const Place destination = make(to);
            const Place source = make(from == to && to == "static" ? "heap" : from);
            for (int kind : {0, 1, 2, 3, 4, 5, -1}) {
                question(to + "_from_" + from + "/" + number(kind), [&] {
                    const bool whole = destination.left && source.left;
                    if (whole) {
                        set(destination, 3, 64);
                        set(source, 5, 64);
                    }
                    cudaDeviceSynchronize();
                    cudaGetLastError();
                    const cudaMemcpyKind k = static_cast<cudaMemcpyKind>(kind);
                    const string rc = kept(async ? cudaMemcpyAsync(destination.p, source.p, 64, k, s)
                                                 : cudaMemcpy(destination.p, source.p, 64, k));
                    cudaStreamSynchronize(s);
                    return rc + (!whole ? "" : first(destination) == 5 ? " arrived" : " same");
                });
            }
            if (to.starts_with("dev") || to.starts_with("pool")) {
                cudaFree(destination.base);
                cudaGetLastError();
            }
        }
    }
}

inline void driver_copies() {
    start();
    ask::looks_behind = true;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    struct Form {
        const char* name;
        int host;  // 1: the destination must be the CPU's; 2: the source; 0: none
        std::function<int(char*, char*, size_t)> call;
    };
    const std::vector<Form> forms = {
        {"HtoD", 2, [](char* d, char* f, size_t n) { return cuMemcpyHtoD(D(d), f, n); }},
        {"DtoH", 1, [](char* d, char* f, size_t n) { return cuMemcpyDtoH(d, D(f), n); }},
        {"DtoD", 0, [](char* d, char* f, size_t n) { return cuMemcpyDtoD(D(d), D(f), n); }},
        {"any", 0, [](char* d, char* f, size_t n) { return cuMemcpy(D(d), D(f), n); }},
        {"HtoDAsync", 2, [s](char* d, char* f, size_t n) { return cuMemcpyHtoDAsync(D(d), f, n, s); }},
        {"DtoHAsync", 1, [s](char* d, char* f, size_t n) { return cuMemcpyDtoHAsync(d, D(f), n, s); }},
        {"DtoDAsync", 0, [s](char* d, char* f, size_t n) { return cuMemcpyDtoDAsync(D(d), D(f), n, s); }},
        {"anyAsync", 0, [s](char* d, char* f, size_t n) { return cuMemcpyAsync(D(d), D(f), n, s); }},
    };
    const Place device = make("dev"), host = make("heap"), pinned = make("pinned");
    for (const string& kind : kinds) {
        const Place place = make(kind);
        for (const Form& form : forms) {
            const string name = kind + "/" + form.name;
            // What is no memory of CUDA's is the CPU's here, and ends the process.
            const bool any = form.name[0] == 'a';
            if (any && !place.cpu &&
                (kind.find("freed") != kind.npos || kind.find("vmm_") != kind.npos || !place.left)) {
                question(name + "/to", [&] { return number(form.call(place.p, device.p, 16)); });
                continue;
            }
            char* const beside = form.host ? host.p : device.p;
            if (form.host != 1) {
                question(name + "/to", [&] { return number(form.call(place.p, beside, 16)); });
                question(name + "/to_past", [&] {
                    return number(form.call(place.p, beside, place.left + 1 > room ? 16 : place.left + 1));
                });
                question(name + "/to_none", [&] { return number(form.call(place.p, beside, 0)); });
            }
            if (form.host != 2) {
                question(name + "/from", [&] { return number(form.call(beside, place.p, 16)); });
                question(name + "/from_past", [&] {
                    return number(form.call(beside, place.p, place.left + 1 > room ? 16 : place.left + 1));
                });
                question(name + "/from_none", [&] { return number(form.call(beside, place.p, 0)); });
            }
        }
    }
    for (const Form& form : forms) {
        question(string("past_whole/") + form.name, [&] {
            return number(
                form.call(form.host == 1 ? pinned.p : device.p, form.host == 2 ? pinned.p : device.p, room + 1));
        });
        question(string("huge/") + form.name, [&] {
            return number(
                form.call(form.host == 1 ? pinned.p : device.p, form.host == 2 ? pinned.p : device.p, 1ull << 40));
        });
        question(string("overlap/") + form.name,
                 [&] { return form.host ? "" : number(form.call(device.p + 16, device.p, 4096)); });
        question(string("both_null/") + form.name, [&] { return number(form.call(nullptr, nullptr, 16)); });
        question(string("both_null_none/") + form.name, [&] { return number(form.call(nullptr, nullptr, 0)); });
    }
}

// ---- 2D: pitches, widths, heights, kinds
inline void copies_2d() {
    start();
    ask::looks_behind = true;
    const Place d = make("dev"), e = make("dev"), h = make("heap"), g = make("pages"), p = make("pinned");
    const std::pair<const char*, const Place*> sides[] = {{"dev", &d}, {"heap", &h}, {"pinned", &p}};
    for (const auto& [to, destination] : sides) {
        for (const auto& [from, origin] : sides) {
            const Place* source = origin != destination ? origin : from[0] == 'd' ? &e : &g;
            for (size_t pitch : {0ul, 32ul, 64ul, 100ul, 1ul << 31, 1ul << 40}) {
                for (size_t width : {0ul, 64ul}) {
                    for (size_t height : {0ul, 1ul, 4ul, 4096ul}) {
                        const string shape = number(pitch) + "_" + number(width) + "_" + number(height);
                        const bool host = to[0] == 'h' || from[0] == 'h' || to[0] == 'p' || from[0] == 'p';
                        if (host && pitch * height > (1ul << 22) && height > 1) continue;
                        if (host && height == 4096) continue;
                        question(string(to) + "_from_" + from + "/" + shape, [&] {
                            return kept(cudaMemcpy2D(destination->p, pitch, source->p, pitch, width, height,
                                                     cudaMemcpyDefault));
                        });
                        question(string(to) + "_from_" + from + "/async_" + shape, [&] {
                            return kept(cudaMemcpy2DAsync(destination->p, pitch, source->p, pitch, width, height,
                                                          cudaMemcpyDefault, nullptr));
                        });
                    }
                }
            }
            for (int kind : {0, 1, 2, 3, 7})
                question(string(to) + "_from_" + from + "/kind_" + number(kind), [&] {
                    return kept(
                        cudaMemcpy2D(destination->p, 64, source->p, 64, 64, 4, static_cast<cudaMemcpyKind>(kind)));
                });
        }
    }
    CUDA_ARRAY_DESCRIPTOR shape{64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    cuArrayCreate(&array, &shape);
    const CUmemorytype types[] = {CU_MEMORYTYPE_HOST,    CU_MEMORYTYPE_DEVICE,         CU_MEMORYTYPE_ARRAY,
                                  CU_MEMORYTYPE_UNIFIED, static_cast<CUmemorytype>(0), static_cast<CUmemorytype>(9)};
    for (CUmemorytype to : types) {
        for (CUmemorytype from : types) {
            for (int form = 0; form < 4; ++form) {
                CUDA_MEMCPY2D c{};
                c.srcMemoryType = from;
                c.dstMemoryType = to;
                c.srcHost = h.p;
                c.srcDevice = D(from == CU_MEMORYTYPE_UNIFIED ? p.p : d.p);
                c.srcArray = array;
                c.dstHost = g.p;
                c.dstDevice = D(e.p);
                c.dstArray = array;
                c.srcPitch = c.dstPitch = form == 1 ? 16 : 64;
                c.WidthInBytes = 32;
                c.Height = form == 2 ? 0 : 4;
                if (form == 3) {
                    c.srcXInBytes = 60;
                    c.dstXInBytes = 60;
                }
                question("types_" + number(to) + "_from_" + number(from) + "/" + number(form),
                         [&] { return number(cuMemcpy2D(&c)); });
                question("types_" + number(to) + "_from_" + number(from) + "/unaligned_" + number(form),
                         [&] { return number(cuMemcpy2DUnaligned(&c)); });
                question("types_" + number(to) + "_from_" + number(from) + "/async_" + number(form),
                         [&] { return number(cuMemcpy2DAsync(&c, nullptr)); });
            }
        }
    }
    question("set_pitch_small", [&] { return kept(cudaMemset2D(d.p, 16, 0, 64, 4)); });
    question("set_past", [&] { return kept(cudaMemset2D(d.p, 1024, 0, 64, 66)); });
    question("set_null", [&] { return kept(cudaMemset2D(nullptr, 64, 0, 64, 4)); });
    question("set_odd_16", [&] { return number(cuMemsetD2D16(D(d.p), 63, 0, 8, 4)); });
    question("set_odd_32", [&] { return number(cuMemsetD2D32(D(d.p), 66, 0, 8, 4)); });
    question("set_one_row_16", [&] { return number(cuMemsetD2D16(D(d.p), 3, 0, 8, 1)); });
}

inline void copies_3d() {
    start();
    ask::looks_behind = true;
    const Place d = make("dev"), h = make("heap");
    cudaExtent extent = make_cudaExtent(16, 8, 4);
    cudaArray_t array = nullptr, layered = nullptr;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
    question("malloc3D", [&] {
        cudaPitchedPtr p{};
        const string s = kept(cudaMalloc3D(&p, extent));
        return s + " " + number(p.xsize) + "," + number(p.ysize);
    });
    question("malloc3D_none", [&] {
        cudaPitchedPtr p{};
        return kept(cudaMalloc3D(&p, make_cudaExtent(0, 0, 0)));
    });
    question("malloc3DArray", [&] { return kept(cudaMalloc3DArray(&array, &format, extent)); });
    if (ask::skipped > 2) cudaMalloc3DArray(&array, &format, extent);
    question("malloc3DArray_layered",
             [&] { return kept(cudaMalloc3DArray(&layered, &format, extent, cudaArrayLayered)); });
    for (unsigned flags : {2u, 4u, 8u, 5u, 0x20u, 0x40u, 0x80u, 0x100u})
        question("malloc3DArray_flags_" + number(flags), [&] {
            cudaArray_t a = nullptr;
            return kept(cudaMalloc3DArray(&a, &format, extent, flags));
        });
    for (size_t w : {0ul, 16ul, 1ul << 20}) {
        for (size_t hh : {0ul, 8ul, 1ul << 20}) {
            for (size_t z : {0ul, 4ul, 1ul << 20}) {
                const string name = number(w) + "_" + number(hh) + "_" + number(z);
                question("array_of/" + name, [&] {
                    cudaArray_t a = nullptr;
                    const string s = kept(cudaMalloc3DArray(&a, &format, make_cudaExtent(w, hh, z)));
                    if (a) cudaFreeArray(a);
                    return s;
                });
                question("copy_to_device/" + name, [&] {
                    cudaMemcpy3DParms c{};
                    c.srcPtr = make_cudaPitchedPtr(h.p, 16, 16, 8);
                    c.dstPtr = make_cudaPitchedPtr(d.p, 16, 16, 8);
                    c.extent = make_cudaExtent(w, hh, z);
                    c.kind = cudaMemcpyHostToDevice;
                    return w * hh * z > room ? "" : kept(cudaMemcpy3D(&c));
                });
                question("copy_to_array/" + name, [&] {
                    cudaMemcpy3DParms c{};
                    c.srcPtr = make_cudaPitchedPtr(h.p, 16, 16, 8);
                    c.dstArray = array;
                    c.extent = make_cudaExtent(w, hh, z);
                    c.kind = cudaMemcpyHostToDevice;
                    return w * hh * z > room ? "" : kept(cudaMemcpy3D(&c));
                });
                question("fill/" + name, [&] {
                    return w * hh * z > room && w * hh * z < (1ul << 33)
                               ? ""
                               : kept(cudaMemset3D(make_cudaPitchedPtr(d.p, 16, 16, 8), 0, make_cudaExtent(w, hh, z)));
                });
            }
        }
    }
    for (size_t x : {0ul, 1ul, 8ul, 16ul, 17ul}) {
        question("from_array_x/" + number(x), [&] {
            cudaMemcpy3DParms c{};
            c.srcArray = array;
            c.srcPos = make_cudaPos(x, 0, 0);
            c.dstPtr = make_cudaPitchedPtr(h.p, 16, 16, 8);
            c.extent = make_cudaExtent(8, 8, 4);
            c.kind = cudaMemcpyDeviceToHost;
            return kept(cudaMemcpy3D(&c));
        });
        question("array_to_device_x/" + number(x), [&] {
            cudaMemcpy3DParms c{};
            c.srcArray = array;
            c.srcPos = make_cudaPos(0, x, 0);
            c.dstPtr = make_cudaPitchedPtr(d.p, 16, 16, 8);
            c.extent = make_cudaExtent(8, 4, 4);
            c.kind = cudaMemcpyDeviceToDevice;
            return kept(cudaMemcpy3D(&c));
        });
        question("pitch/" + number(x), [&] {
            cudaMemcpy3DParms c{};
            c.srcPtr = make_cudaPitchedPtr(h.p, x, 16, 8);
            c.dstPtr = make_cudaPitchedPtr(d.p, 16, 16, 8);
            c.extent = make_cudaExtent(16, 4, 2);
            c.kind = cudaMemcpyHostToDevice;
            return kept(cudaMemcpy3D(&c));
        });
    }
    question("null", [&] { return kept(cudaMemcpy3D(nullptr)); });
    question("empty", [&] {
        cudaMemcpy3DParms c{};
        return kept(cudaMemcpy3D(&c));
    });
    question("driver_null", [&] { return number(cuMemcpy3D(nullptr)); });
    question("driver_empty", [&] {
        CUDA_MEMCPY3D c{};
        return number(cuMemcpy3D(&c));
    });
    question("peer_null", [&] { return kept(cudaMemcpyPeer(nullptr, 0, nullptr, 0, 16)); });
    question("peer_device", [&] { return kept(cudaMemcpyPeer(d.p, 99, d.p + 64, 0, 16)); });
    question("peer_same", [&] { return kept(cudaMemcpyPeer(d.p, 0, d.p + 64, 0, 16)); });
    question("peer_host", [&] { return kept(cudaMemcpyPeer(d.p, 0, h.p, 0, 16)); });
}

inline void arrays() {
    start();
    ask::looks_behind = true;
    const Place d = make("dev"), h = make("heap");
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array = nullptr;
    cudaMallocArray(&array, &format, 64, 16);
    for (size_t w : {0ul, 4ul, 256ul, 260ul, 1ul << 33}) {
        for (size_t hh : {0ul, 1ul, 16ul, 17ul}) {
            for (size_t x : {0ul, 4ul, 256ul}) {
                const string name = number(w) + "_" + number(hh) + "_at_" + number(x);
                question("to/" + name, [&] {
                    return kept(
                        cudaMemcpy2DToArray(array, x, 0, h.p, w < 1024 ? 512 : w, w, hh, cudaMemcpyHostToDevice));
                });
                question("from/" + name, [&] {
                    return kept(
                        cudaMemcpy2DFromArray(h.p, w < 1024 ? 512 : w, array, x, 0, w, hh, cudaMemcpyDeviceToHost));
                });
                question("between/" + name, [&] {
                    return kept(cudaMemcpy2DArrayToArray(array, x, 0, array, 0, 0, w, hh, cudaMemcpyDeviceToDevice));
                });
            }
        }
    }
    for (size_t n : {0ul, 4ul, 4096ul, 4097ul})
        for (size_t x : {0ul, 4ul, 4096ul}) {
            question("htoa/" + number(n) + "_" + number(x),
                     [&] { return number(cuMemcpyHtoA(reinterpret_cast<CUarray>(array), x, h.p, n)); });
            question("atoh/" + number(n) + "_" + number(x),
                     [&] { return number(cuMemcpyAtoH(h.p, reinterpret_cast<CUarray>(array), x, n)); });
            question("dtoa/" + number(n) + "_" + number(x),
                     [&] { return number(cuMemcpyDtoA(reinterpret_cast<CUarray>(array), x, D(d.p), n)); });
            question("atod/" + number(n) + "_" + number(x),
                     [&] { return number(cuMemcpyAtoD(D(d.p), reinterpret_cast<CUarray>(array), x, n)); });
        }
    for (int channels : {0, 1, 2, 3, 4, 5})
        for (int f : {1, 2, 3, 8, 9, 10, 0x10, 0x20, 0xb0, 0x77})
            question("create/" + number(f) + "_" + number(channels), [&] {
                CUarray a = nullptr;
                CUDA_ARRAY_DESCRIPTOR s{16, 16, static_cast<CUarray_format>(f), static_cast<unsigned>(channels)};
                const int rc = cuArrayCreate(&a, &s);
                if (!rc) cuArrayDestroy(a);
                return number(rc);
            });
    question("create_null", [&] { return number(cuArrayCreate(nullptr, nullptr)); });
    question("malloc_null", [&] { return kept(cudaMallocArray(nullptr, &format, 4, 4)); });
    question("malloc_format_null", [&] {
        cudaArray_t a;
        return kept(cudaMallocArray(&a, nullptr, 4, 4));
    });
    question("free_null", [&] { return kept(cudaFreeArray(nullptr)); });
    question("destroy_null", [&] { return number(cuArrayDestroy(nullptr)); });
    question("info", [&] {
        cudaChannelFormatDesc f{};
        cudaExtent e{};
        unsigned flags = 7;
        const string s = kept(cudaArrayGetInfo(&f, &e, &flags, array));
        return s + " " + number(f.x) + " " + number(e.width) + "x" + number(e.height) + "x" + number(e.depth) + " " +
               number(flags);
    });
    question("info_null", [&] { return kept(cudaArrayGetInfo(nullptr, nullptr, nullptr, nullptr)); });
    question("plane", [&] {
        cudaArray_t p;
        return kept(cudaArrayGetPlane(&p, array, 0));
    });
    question("sparse", [&] {
        cudaArraySparseProperties s;
        return kept(cudaArrayGetSparseProperties(&s, array));
    });
    question("requirements", [&] {
        cudaArrayMemoryRequirements s;
        return kept(cudaArrayGetMemoryRequirements(&s, array, 0));
    });
    question("pitch_driver_4", [&] {
        CUdeviceptr p;
        size_t n = 0;
        const int rc = cuMemAllocPitch(&p, &n, 100, 4, 4);
        return number(rc) + " " + number(n);
    });
    for (unsigned unit : {0u, 1u, 2u, 3u, 8u, 16u, 32u})
        question("pitch_unit/" + number(unit), [&] {
            CUdeviceptr p;
            size_t n = 0;
            const int rc = cuMemAllocPitch(&p, &n, 100, 4, unit);
            return number(rc) + " " + number(n);
        });
    for (size_t w : {0ul, 1ul, 512ul, 513ul, 1ul << 31, 1ul << 45})
        question("pitch/" + number(w), [&] {
            void* p;
            size_t n = 0;
            const string s = kept(cudaMallocPitch(&p, &n, w, 2));
            return s + " " + number(n);
        });
    // Textures of arrays, of linear memory and of rows.
    for (int kind = 0; kind < 5; ++kind)
        for (int filter = 0; filter < 2; ++filter)
            for (int read = 0; read < 2; ++read)
                for (int address = 0; address < 4; ++address) {
                    cudaResourceDesc r{};
                    cudaTextureDesc t{};
                    t.filterMode = static_cast<cudaTextureFilterMode>(filter);
                    t.readMode = static_cast<cudaTextureReadMode>(read);
                    t.addressMode[0] = t.addressMode[1] = static_cast<cudaTextureAddressMode>(address);
                    const char* const names[] = {"array", "linear", "linear_int", "rows", "rows_odd"};
                    if (kind == 0) {
                        r.resType = cudaResourceTypeArray;
                        r.res.array.array = array;
                    }
                    if (kind == 1 || kind == 2) {
                        r.resType = cudaResourceTypeLinear;
                        r.res.linear.devPtr = d.p;
                        r.res.linear.sizeInBytes = 4096;
                        r.res.linear.desc = kind == 1 ? format : cudaCreateChannelDesc<int>();
                    }
                    if (kind > 2) {
                        r.resType = cudaResourceTypePitch2D;
                        r.res.pitch2D.devPtr = d.p;
                        r.res.pitch2D.desc = format;
                        r.res.pitch2D.width = 64;
                        r.res.pitch2D.height = 4;
                        r.res.pitch2D.pitchInBytes = kind == 3 ? 512 : 260;
                    }
                    question(string("texture/") + names[kind] + "_" + number(filter) + number(read) + number(address),
                             [&] {
                                 cudaTextureObject_t o = 0;
                                 const string s = kept(cudaCreateTextureObject(&o, &r, &t, nullptr));
                                 if (o) cudaDestroyTextureObject(o);
                                 return s;
                             });
                }
    question("texture_null", [&] { return kept(cudaCreateTextureObject(nullptr, nullptr, nullptr, nullptr)); });
    question("texture_destroy_0", [&] { return kept(cudaDestroyTextureObject(0)); });
    question("texture_destroy_bad", [&] { return kept(cudaDestroyTextureObject(12345)); });
    question("surface_of_plain", [&] {
        cudaResourceDesc r{};
        r.resType = cudaResourceTypeArray;
        r.res.array.array = array;
        cudaSurfaceObject_t o;
        return kept(cudaCreateSurfaceObject(&o, &r));
    });
    question("surface_of_linear", [&] {
        cudaResourceDesc r{};
        r.resType = cudaResourceTypeLinear;
        r.res.linear.devPtr = d.p;
        cudaSurfaceObject_t o;
        return kept(cudaCreateSurfaceObject(&o, &r));
    });
}

inline void batches() {
    start();
    ask::looks_behind = true;
    const Place d = make("dev"), h = make("pinned");
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (size_t count : {0ul, 1ul, 2ul})
        for (size_t attributes : {0ul, 1ul, 2ul, 3ul})
            for (int order : {0, 1, 2, 3, 4})
                for (size_t index : {0ul, 1ul, 5ul})
                    for (int stream = 0; stream < 2; ++stream)
                        question(number(count) + "_attributes_" + number(attributes) + "_order_" + number(order) +
                                     "_at_" + number(index) + (stream ? "" : "_legacy"),
                                 [&] {
                                     void* to[2] = {d.p, d.p + 64};
                                     const void* from[2] = {h.p, h.p + 64};
                                     size_t sizes[2] = {64, 64}, indexes[3] = {index, 1, 2};
                                     cudaMemcpyAttributes a[3]{};
                                     for (auto& one : a)
                                         one.srcAccessOrder = static_cast<cudaMemcpySrcAccessOrder>(order);
                                     return kept(cudaMemcpyBatchAsync(to, from, sizes, count, a, indexes, attributes,
                                                                      stream ? s : nullptr));
                                 });
    for (const string& kind : kinds)
        question("to_" + kind, [&] {
            const Place place = make(kind);
            void* to[1] = {place.p};
            const void* from[1] = {h.p};
            size_t sizes[1] = {64}, indexes[1] = {0};
            cudaMemcpyAttributes a[1]{};
            a[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
            return kept(cudaMemcpyBatchAsync(to, from, sizes, 1, a, indexes, 1, s));
        });
}

}  // namespace
