// entry_points.cc: cuGetProcAddress, the per-thread-default-stream twins and the plain names, all from entry_points.h.
// The parameter types come from the prototypes: a row with a wrong number of parameters does not compile.
#include "host-bridge/soft-gpu/driver/entry_points.h"

#include <cstring>
#include <string_view>
#include <tuple>

#include "host-bridge/soft-gpu/driver/api.h"

namespace barcuda::soft::driver {
namespace {

template <class Function> struct Signature;
template <class... Parameters> struct Signature<CUresult (*)(Parameters...)> {
    using Types = std::tuple<Parameters...>;
    static constexpr std::size_t count = sizeof...(Parameters);
};
template <auto Function, std::size_t Index> using Argument =
    std::tuple_element_t<Index, typename Signature<decltype(Function)>::Types>;

// Stream 0 is the calling thread's own while this lives.
struct PerThreadDefault {
    const bool before = per_thread_default;
    PerThreadDefault() { per_thread_default = true; }
    ~PerThreadDefault() { per_thread_default = before; }
};

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// clang-format off
#define TYPED_0(f)
#define TYPED_1(f) Argument<&f, 0> a
#define TYPED_2(f) TYPED_1(f), Argument<&f, 1> b
#define TYPED_3(f) TYPED_2(f), Argument<&f, 2> c
#define TYPED_4(f) TYPED_3(f), Argument<&f, 3> d
#define TYPED_5(f) TYPED_4(f), Argument<&f, 4> e
#define TYPED_6(f) TYPED_5(f), Argument<&f, 5> g
#define TYPED_7(f) TYPED_6(f), Argument<&f, 6> h
#define TYPED_8(f) TYPED_7(f), Argument<&f, 7> i
#define TYPED_9(f) TYPED_8(f), Argument<&f, 8> j
#define TYPED_10(f) TYPED_9(f), Argument<&f, 9> k
#define TYPED_11(f) TYPED_10(f), Argument<&f, 10> l
#define PASSED_0
#define PASSED_1 a
#define PASSED_2 a, b
#define PASSED_3 a, b, c
#define PASSED_4 a, b, c, d
#define PASSED_5 a, b, c, d, e
#define PASSED_6 a, b, c, d, e, g
#define PASSED_7 a, b, c, d, e, g, h
#define PASSED_8 a, b, c, d, e, g, h, i
#define PASSED_9 a, b, c, d, e, g, h, i, j
#define PASSED_10 a, b, c, d, e, g, h, i, j, k
#define PASSED_11 a, b, c, d, e, g, h, i, j, k, l

#define NO_TWIN(symbol, version)
#define TWIN(symbol, version, suffix, suffixed_version, parameters)                                   \
    extern "C" __attribute__((visibility("default"))) CUresult symbol##_##suffix(TYPED_##parameters(symbol)) { \
        const PerThreadDefault scope;                                                                 \
        return symbol(PASSED_##parameters);                                                           \
    }
BARCUDA_SOFT_ENTRY_POINTS(NO_TWIN, TWIN)

// The assembler name keeps clear of <cuda.h>'s declarations of the first, 32-bit versions.
#define PLAIN(name, symbol, parameters)                                                                        \
    extern "C" __attribute__((visibility("default"))) CUresult plain_##name(TYPED_##parameters(symbol)) asm(#name); \
    CUresult plain_##name(TYPED_##parameters(symbol)) { return symbol(PASSED_##parameters); }
BARCUDA_SOFT_ALIASES(PLAIN)
// clang-format on

namespace barcuda::soft::driver {
namespace {

struct EntryPoint {
    std::string_view symbol;
    int version;
    void* function;
    int twin_version;
    void* twin;  // none: the function has no stream

    // Without its version suffix, as cuGetProcAddress knows it.
    constexpr std::string_view name() const {
        const std::size_t at = symbol.rfind("_v");
        return at != symbol.npos && at + 3 == symbol.size() ? symbol.substr(0, at) : symbol;
    }
};

#define ROW(symbol, version) {#symbol, version, reinterpret_cast<void*>(&symbol), 0, nullptr},
#define ROW_WITH_TWIN(symbol, version, suffix, suffixed_version, parameters) \
    {#symbol, version, reinterpret_cast<void*>(&symbol), suffixed_version, reinterpret_cast<void*>(&symbol##_##suffix)},
const EntryPoint entry_points[] = {BARCUDA_SOFT_ENTRY_POINTS(ROW, ROW_WITH_TWIN) ROW(cuGetProcAddress, 11030)
                                       ROW(cuGetProcAddress_v2, 12000)};

CUdriverProcAddressQueryResult look_up(const char* name, int version, cuuint64_t flags, void** found) {
    const EntryPoint* best = nullptr;
    bool known = false;
    for (const EntryPoint& each : entry_points) {
        if (each.name() != name && each.symbol != name) continue;
        known = true;
        if (each.version <= version && (!best || each.version > best->version)) best = &each;
    }
    *found = nullptr;
    if (!known) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!best) return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    *found = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && best->twin ? best->twin : best->function;
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

}  // namespace
}  // namespace barcuda::soft::driver

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
    constexpr cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !pfn || (flags & ~both) != 0 || flags == both) return CUDA_ERROR_INVALID_VALUE;
    const CUdriverProcAddressQueryResult status = look_up(symbol, cudaVersion, flags, pfn);
    if (symbolStatus) *symbolStatus = status;
    return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
}
