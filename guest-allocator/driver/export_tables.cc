// SPDX-License-Identifier: Apache-2.0
// export_tables.cc: the private tables through which NVIDIA's libraries ask their driver for functions
// (cuGetExportTable). A table is found by a 16-byte id; its first word is its size in bytes, all others are functions.
// Nearly all that is asked there is a public function by another name. What stands here is known from public projects
// (ZLUDA's dark_api, LUPINE) and from watching which slots the libraries of a GPU machine ask for (driver 580.159, CUDA
// 13.0); each slot says which. The tables are as large as that driver's, and no slot of a table is empty: one that is
// not served answers CUDA_ERROR_NOT_SUPPORTED. Ids that are not here are refused; most libraries can do without.
//
// Libraries call these functions before each of their launches: none is a command unless its comment says so.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "guest-allocator/client/log.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/driver/symbols.h"

namespace barcuda::guest {
namespace {

// ---- what the slots do ----------------------------------------------------------------------------------------------
CUresult context_device(CUcontext context, CUdevice* device) { return cuCtxGetDevice_v2(device, context); }

// A stream's object in the driver stands for the stream in calls of the same table: any value that stays the same. The
// handle is one. No stream is no object, so the default stream goes by its other name.
CUresult stream_object(CUcontext context, CUstream stream, void** object, int per_thread) {
    if (!object) return CUDA_ERROR_INVALID_VALUE;
    const InContext scope(context);
    if (!stream && per_thread) stream = CU_STREAM_PER_THREAD;
    stream = real(stream);
    unsigned long long unused;
    if (CUresult r = stream_id(stream, &unused); r != CUDA_SUCCESS) return r;
    *object = stream ? stream : CU_STREAM_LEGACY;
    return CUDA_SUCCESS;
}
CUresult stream_object_id(CUcontext context, void* object, std::uint64_t* id) {
    if (!object) return CUDA_ERROR_INVALID_HANDLE;
    const InContext scope(context);
    unsigned long long found = 0;
    const CUresult r = stream_id(real(static_cast<CUstream>(object)), &found);
    if (id && r == CUDA_SUCCESS) *id = found;
    return id ? r : CUDA_ERROR_INVALID_VALUE;
}

// Calls back for each function of a module, and returns how many there are. Two commands.
unsigned each_function(CUcontext context, CUmodule module, void (*each)(void*, CUfunction, std::uint64_t owner),
                       void* opaque) {
    const InContext scope(context);
    unsigned count = 0;
    if (cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS) return 0;
    std::vector<CUfunction> functions(count);
    if (count && cuModuleEnumerateFunctions(functions.data(), count, module) != CUDA_SUCCESS) return 0;
    for (CUfunction function : functions)
        if (each) each(opaque, function, reinterpret_cast<std::uint64_t>(module));
    return count;
}

// ---- the tables -----------------------------------------------------------------------------------------------------
using Function = void (*)();
struct Slot {
    unsigned number;  // its word in the table; 0 is the size
    Function function;
};
template <class F> Slot slot(unsigned number, F* function) { return {number, reinterpret_cast<Function>(function)}; }

struct Contexts {  // cuBLASLt, through its runtime
    static constexpr const char* name = "42D85A81-23F6-CB47-8298-F6E78A3AECDC";
    static constexpr std::size_t bytes = 24;
    static auto served() {
        return std::array{
            slot(2, &cuCtxGetCurrent),  // (CUcontext*); LUPINE, seen
        };
    }
};
struct Ids {  // cuBLAS, cuBLASLt, cuFFT
    static constexpr const char* name = "21318C60-9714-3248-8CA6-41FF7324C8F2";
    static constexpr std::size_t bytes = 744;
    static auto served() {
        return std::array{
            slot(3, &context_device),  // (CUcontext, CUdevice*): cuCtxGetDevice; LUPINE, seen
            slot(4, &cuCtxGetId),      // (CUcontext, uint64_t*); cuBLASLt finds its kernels again by it; LUPINE, seen
            slot(39, &stream_object_id),  // (CUcontext, void* object, uint64_t*): with 51, cuStreamGetId; LUPINE
            slot(51, &stream_object),     // (CUcontext, CUstream, void** object, int per_thread); LUPINE
        };
    }
};
struct Modules {  // cuFFT
    static constexpr const char* name = "6E163FBE-B958-444D-835C-E182AFF1991E";
    static constexpr std::size_t bytes = 792;
    static auto served() {
        return std::array{
            slot(7, &each_function),  // (CUcontext, CUmodule, void (*)(void*, CUfunction, uint64_t), void*); LUPINE
        };
    }
};
struct Half {  // cuBLASLt, before its kernels of half precision: it looks into the table whatever it was answered
    static constexpr const char* name = "1734DC26-800D-4745-8726-C0F1E7DD8BCA";
    static constexpr std::size_t bytes = 136;
    static auto served() { return std::array<Slot, 0>{}; }  // slot 4 is called (seen); nothing public says what it is
};

template <class T, unsigned number> CUresult refused() {
    static constinit std::atomic<bool> told{false};
    if (logs_debug() && !told.exchange(true))
        log_line("slot %u of the driver's table %s was called, which is not served: CUDA_ERROR_NOT_SUPPORTED", number,
                 T::name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

template <class T> const void* table() {
    static const auto words = []<std::size_t... I>(std::index_sequence<I...>) {
        std::array<Function, sizeof...(I)> t{reinterpret_cast<Function>(&refused<T, I>)...};
        t[0] = reinterpret_cast<Function>(T::bytes);
        for (const auto& [number, function] : T::served()) t[number] = function;
        return t;
    }
    (std::make_index_sequence<T::bytes / sizeof(Function)>{});
    return words.data();
}

// ---- how they are found ---------------------------------------------------------------------------------------------
constexpr unsigned char digit(char c) { return static_cast<unsigned char>(c <= '9' ? c - '0' : c - 'A' + 10); }
constexpr std::array<unsigned char, 16> id_of(const char* text) {
    std::array<unsigned char, 16> id{};
    for (auto& byte : id) {
        while (*text == '-') ++text;
        byte = static_cast<unsigned char>(digit(text[0]) << 4 | digit(text[1]));
        text += 2;
    }
    return id;
}
bool is(const CUuuid* id, std::array<unsigned char, 16> other) {
    return !memcmp(id->bytes, other.data(), other.size());
}
template <class... T> const void* find(const CUuuid* id) {
    const void* found = nullptr;
    ((found = is(id, id_of(T::name)) ? table<T>() : nullptr) || ...);
    return found;
}

// A CUDA runtime asks for this first. A runtime that could not be replaced (runtime/static_runtime.cc) can do nothing
// without NVIDIA's driver, and its error would not help any user.
constexpr auto runtimes = id_of("6BD5FB6C-5BF4-E74A-8987-D93912FD9DF9");

void tell_of_runtime(const char* file) {
    static std::atomic_flag told;
    if (told.test_and_set()) return;
    const char* const in_front = getenv("LD_PRELOAD");
    if ((!in_front || !strstr(in_front, "libbarcuda.so")) && access("/etc/ld.so.preload", F_OK) != 0)
        return log_line(
            "%s carries a CUDA runtime of its own, and Barcuda's library was loaded too late to replace it: start the "
            "program by `barcuda exec`, or all programs after `barcuda guest enable` (LD_PRELOAD)",
            file);
    log_line(
        "%s carries a CUDA runtime of its own, which works with NVIDIA's driver alone, and it is not one that we know "
        "how to replace: what it asks of the GPU will fail. Link it with -cudart=shared, do not strip it, or build "
        "Barcuda with the toolkit that it comes from",
        file);
}

void tell_of_unknown(const CUuuid* id, const char* file) {
    const auto* b = reinterpret_cast<const unsigned char*>(id->bytes);
    log_line(
        "%s asked for the driver's table %02X%02X%02X%02X-%02X%02X-%02X%02X-%02X%02X-%02X%02X%02X%02X%02X%02X, "
        "which is not served",
        file, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

// The unknown ids that have been named, by their first half: once each.
bool first_time(const CUuuid* id) {
    static constinit std::atomic<std::uint64_t> told[32] = {};
    std::uint64_t half;
    memcpy(&half, id->bytes, sizeof half);
    for (auto& place : told) {
        std::uint64_t before = 0;
        if (place.compare_exchange_strong(before, half)) return true;
        if (before == half) return false;
    }
    return false;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuGetExportTable(const void** table, const CUuuid* id) {
    if (!table) return CUDA_ERROR_INVALID_VALUE;
    *table = nullptr;
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if ((*table = find<Contexts, Ids, Modules, Half>(id))) return CUDA_SUCCESS;
    const char* const caller = file_of(__builtin_return_address(0));
    const char* const file = caller ? caller : program_invocation_short_name;
    if (is(id, runtimes)) tell_of_runtime(file);
    else if (logs_debug() && first_time(id)) tell_of_unknown(id, file);
    return CUDA_ERROR_INVALID_VALUE;
}
