// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/fake_driver.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace barcuda::fake {
namespace {

template <class T, class = void> struct is_handle : std::false_type {};
template <class T> struct is_handle<T, std::void_t<decltype(TypeOf<T>::value)>>
    : std::bool_constant<std::is_pointer_v<T>> {};

void expect(bool ok, const char* function, const char* what) {
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
CUresult pointer_attributes(unsigned count, CUpointer_attribute* names, void** values, CUdeviceptr p) {
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
CUresult address_range(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr p) {
    const World& w = World::current();
    if (p < w.memory || p >= w.memory + World::memory_bytes) return CUDA_ERROR_NOT_FOUND;
    if (begin) *begin = w.memory;
    if (bytes) *bytes = World::memory_bytes;
    return CUDA_SUCCESS;
}
CUresult no_parameters(CUfunction, std::size_t, std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_VALUE; }
CUresult no_kernel_parameters(CUkernel, std::size_t, std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_VALUE; }
template <class Handle> CUresult a_name(const char** name, Handle) {
    *name = "name";
    return CUDA_SUCCESS;
}
CUresult no_image(CUlinkState, void** image, std::size_t* bytes) {
    static char text[] = "image";
    *image = text;
    *bytes = sizeof text;
    return CUDA_SUCCESS;
}
CUresult a_kernel_node(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* its) {
    look_at("cuGraphKernelNodeGetParams", node);
    look_at("cuGraphKernelNodeGetParams", &its->func);
    return CUDA_SUCCESS;
}
CUresult open_memory(CUdeviceptr* address, CUipcMemHandle, unsigned) {
    *address = World::current().memory;
    return CUDA_SUCCESS;
}
CUresult kernel_of_node(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
    look_at("cuGraphKernelNodeGetParams_v2", node);
    *p = {};
    look_at("cuGraphKernelNodeGetParams_v2", &p->func);
    return CUDA_SUCCESS;
}
CUresult set_current(CUcontext context) {  // or none
    if (context) look_at("cuCtxSetCurrent", context);
    return CUDA_SUCCESS;
}
CUresult error_name(CUresult, const char** name) {
    *name = "an error";
    return CUDA_SUCCESS;
}

}  // namespace

Driver driver() {
    Driver d;
#define X(function, ...)                                                       \
    Function<&Driver::function, decltype(Driver::function)>::name = #function; \
    d.function = &Function<&Driver::function, decltype(Driver::function)>::call;
    BARCUDA_DRIVER_ROWS(X)
#undef X
    d.library = "/nowhere/";
    d.cuPointerGetAttributes = pointer_attributes;
    d.cuMemGetAddressRange_v2 = address_range;
    d.cuFuncGetParamInfo = no_parameters;
    d.cuKernelGetParamInfo = no_kernel_parameters;
    d.cuFuncGetName = a_name<CUfunction>;
    d.cuKernelGetName = a_name<CUkernel>;
    d.cuLinkComplete = no_image;
    d.cuGraphKernelNodeGetParams_v2 = a_kernel_node;
    d.cuIpcOpenMemHandle_v2 = open_memory;
    d.cuGraphKernelNodeGetParams_v2 = kernel_of_node;
    d.cuCtxSetCurrent = set_current;
    d.cuGetErrorName = error_name;
    return d;
}

void fill(Libraries& libraries) {
    LibraryFunctions& l = libraries.functions();
#define X(function, ...)                                                                           \
    Function<&LibraryFunctions::function, decltype(LibraryFunctions::function)>::name = #function; \
    l.function = &Function<&LibraryFunctions::function, decltype(LibraryFunctions::function)>::call;
    BARCUDA_LIBRARY_ROWS(X)
    BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X
}

Ground::Ground(std::uint64_t base, const Driver& driver, int region)
    : file(region < 0 ? memfd_create("ground", 0) : dup(region)),
      extents(file, base),
      table(driver),
      session(table, extents, *this, status) {
    fill(session.libraries());
    expect(file >= 0 && ftruncate(file, bytes) == 0 && !extents.map(0, granted), "the test", "no memory");
}
Ground::~Ground() { close(file); }

}  // namespace barcuda::fake
