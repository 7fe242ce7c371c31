// SPDX-License-Identifier: Apache-2.0
// libraries.h: NVIDIA's math libraries whose functions can be commands, for guests that have none of their own. An
// entry each; the rows of a library lie in rows/, and its functions' names begin with the entry's.
#pragma once
#include <iterator>
#include <string_view>

// Their handles, as <cublas_api.h> and <curand.h> declare them.
typedef struct cublasContext* cublasHandle_t;
typedef struct curandGenerator_st* curandGenerator_t;

namespace barcuda {

struct MathLibrary {
    std::string_view prefix;  // of its functions
    const char* title;        // for people
    const char* sonames[2];   // on the host: the first that is there; null: no other
    const char* software;     // what the software GPU's needs beside itself; null: nothing
};
inline constexpr MathLibrary math_libraries[] = {
    {"cublas", "cuBLAS", {"libcublas.so.13", "libcublas.so.12"}, nullptr},
    {"curand", "cuRAND", {"libcurand.so.10", nullptr}, "NVIDIA's cuRAND"},
};
inline constexpr const char* toolkit_libraries = "/usr/local/cuda/lib64/";  // where a toolkit has them

// Whose function this is; null: none of theirs.
constexpr const MathLibrary* library_named(std::string_view function) {
    for (const MathLibrary& library : math_libraries)
        if (function.starts_with(library.prefix)) return &library;
    return nullptr;
}

}  // namespace barcuda
