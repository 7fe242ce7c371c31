// libraries.h: NVIDIA's math libraries on the host, opened when a client first asks for one: they are large, and most
// clients never do. They work on the worker's current context, as any library of a CUDA program. One member for each
// function of shm-device/library_commands.h; a host that has none of a library, or an old one, leaves them null.
#pragma once
#include <string>

#include "shm-device/commands.h"

namespace barcuda {

class Libraries {
  public:
    // `driver`: where the driver was found. A driver with a place of its own, the software GPU's, has its libraries
    // beside it, and no others work on it.
    explicit Libraries(const std::string& driver);

#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_BLAS(X)
    BARCUDA_RANDOM(X)
#undef X
#define X(name, ...) decltype(&::name##_64) name = nullptr;
    BARCUDA_BLAS_WORK(X)
#undef X
    decltype(&::cublasSetPointerMode_v2) cublasSetPointerMode_v2 = nullptr;

    void need(Op op) {  // this command comes: its library is opened, if it has not been tried
        if (is_library(op) && !tried(op)) open(op);
    }
    bool has(Op op) const { return is_random(op) ? curandCreateGenerator != nullptr : cublasCreate_v2 != nullptr; }

  private:
    static bool is_random(Op op) { return op >= Op::curandCreateGenerator; }
    bool& tried(Op op) { return tried_[is_random(op)]; }
    void open(Op op);
    void* find(std::initializer_list<const char*> names) const;

    std::string folder_;  // with its slash; empty: where the system has its libraries
    bool tried_[2] = {};
};

}  // namespace barcuda
