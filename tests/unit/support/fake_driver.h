// SPDX-License-Identifier: Apache-2.0
// fake_driver.h: a driver that does nothing but watch. Every function of the command table's is there, made from its
// prototype: a handle that it is given must be one that it has given, an object that it is asked for is new. So a
// session above it that lets a lie through is found out at once.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "host-bridge/worker/session/library_functions.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda::fake {

struct World {
    std::set<std::uint64_t> given;  // handles
    std::uint64_t next = 0x5555'0000'0000;
    std::uint64_t calls = 0;
    std::string last;                       // the last function that was called
    CUdeviceptr memory = 0x2a00'0000'0000;  // one allocation of a mebibyte
    static constexpr std::size_t memory_bytes = 1 << 20;

    static World& current() {
        static World world;
        return world;
    }
    std::uint64_t give() {
        next += 64;
        given.insert(next);
        return next;
    }
};

template <class T, class = void> struct is_handle : std::false_type {};
template <class T> struct is_handle<T, std::void_t<decltype(TypeOf<T>::value)>>
    : std::bool_constant<std::is_pointer_v<T>> {};

inline void expect(bool ok, const char* function, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "%s reached the driver with %s\n", function, what);
    std::abort();
}

template <class T> void look_at(const char* function, T argument) {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (is_handle<T>::value) {
        const auto raw = reinterpret_cast<std::uint64_t>(argument);
        const bool null_stream = std::is_same_v<T, CUstream> && raw <= 2;
        expect(null_stream || World::current().given.contains(raw), function, "a handle that it has never given");
    } else if constexpr (std::is_pointer_v<T> && !std::is_const_v<Pointee> && is_handle<Pointee>::value) {
        if (argument) *argument = reinterpret_cast<Pointee>(World::current().give());
    }
}

template <auto member, class F> struct Function;
template <auto member, class R, class... P> struct Function<member, R (*)(P...)> {
    static inline const char* name = "?";
    static R call(P... arguments) {
        World::current().last = name;
        ++World::current().calls;
        (look_at(name, arguments), ...);
        return R{};
    }
};

// What the session itself asks.
inline CUresult pointer_attributes(unsigned count, CUpointer_attribute* names, void** values, CUdeviceptr p) {
    const World& w = World::current();
    if (p < w.memory || p >= w.memory + World::memory_bytes) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) switch (names[i]) {
            case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned*>(values[i]) = CU_MEMORYTYPE_DEVICE; break;
            case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(values[i]) = w.memory; break;
            case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(values[i]) = World::memory_bytes; break;
            default: return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}
inline CUresult no_parameters(CUfunction, std::size_t, std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_VALUE; }
inline CUresult no_kernel_parameters(CUkernel, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_VALUE;
}
template <class Handle> CUresult a_name(const char** name, Handle) {
    *name = "name";
    return CUDA_SUCCESS;
}
inline CUresult no_image(CUlinkState, void** image, std::size_t* bytes) {
    static char text[] = "image";
    *image = text;
    *bytes = sizeof text;
    return CUDA_SUCCESS;
}
inline CUresult set_current(CUcontext context) {  // or none
    if (context) look_at("cuCtxSetCurrent", context);
    return CUDA_SUCCESS;
}
inline CUresult error_name(CUresult, const char** name) {
    *name = "an error";
    return CUDA_SUCCESS;
}

inline Driver driver() {
    Driver d;
#define X(function, ...)                                                       \
    Function<&Driver::function, decltype(Driver::function)>::name = #function; \
    d.function = &Function<&Driver::function, decltype(Driver::function)>::call;
    BARCUDA_DRIVER_ROWS(X)
#undef X
    d.library = "/nowhere/";
    d.cuPointerGetAttributes = pointer_attributes;
    d.cuFuncGetParamInfo = no_parameters;
    d.cuKernelGetParamInfo = no_kernel_parameters;
    d.cuFuncGetName = a_name<CUfunction>;
    d.cuKernelGetName = a_name<CUkernel>;
    d.cuLinkComplete = no_image;
    d.cuCtxSetCurrent = set_current;
    d.cuGetErrorName = error_name;
    return d;
}

inline void fill(Libraries& libraries) {
    LibraryFunctions& l = libraries.functions();
#define X(function, ...)                                                                           \
    Function<&LibraryFunctions::function, decltype(LibraryFunctions::function)>::name = #function; \
    l.function = &Function<&LibraryFunctions::function, decltype(LibraryFunctions::function)>::call;
    BARCUDA_LIBRARY_ROWS(X)
    BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X
}

// Where the region lies: under TSan somewhere else, it keeps the usual place for itself.
#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t ground_base = std::uint64_t{64} << 30;
#else
constexpr std::uint64_t ground_base = BARCUDA_DEFAULT_BASE;
#endif

// A session over it, with a region of 64 MiB, of which the client has the first half.
struct Ground : Granter {
    static constexpr std::uint64_t bytes = 64 << 20, granted = 32 << 20;
    int file;
    Extents extents;
    barcuda_status status{};
    const Driver table;
    Session session;

    explicit Ground(std::uint64_t base = ground_base, const Driver& driver = fake::driver());
    ~Ground() override;
    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) override {
        return shared.offer(0, kind, handle, File(dup(file.fd()))) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult find_shared(Shared::Kind kind, Shared::Handle& handle, File& file) override {
        const Shared::Thing* thing = shared.find(kind, handle);
        if (!thing) return CUDA_ERROR_INVALID_HANDLE;
        handle = thing->handle;
        file = File(dup(thing->file.fd()));
        return CUDA_SUCCESS;
    }
    void withdraw(const Shared::Handle& token) override { shared.withdraw(0, token); }
    Shared shared;
};

}  // namespace barcuda::fake

#include <sys/mman.h>

inline barcuda::fake::Ground::Ground(std::uint64_t base, const Driver& driver)
    : file(memfd_create("ground", 0)), extents(file, base), table(driver), session(table, extents, *this, status) {
    fill(session.libraries());
    expect(file >= 0 && ftruncate(file, bytes) == 0 && !extents.map(0, granted), "the test", "no memory");
}
inline barcuda::fake::Ground::~Ground() { close(file); }
