// SPDX-License-Identifier: Apache-2.0
// unsupported.h: how a function of the runtime is spelled that only says so: the first call reports the name, and all
// fail.
#pragma once
#include <driver_types.h>

namespace barcuda::runtime {
cudaError_t record_unsupported();  // error.cc: the thread remembers cudaErrorNotSupported
}
extern "C" [[gnu::weak]] void barcuda_refuse(const char* name,
                                             int* told);  // client/refused.cc; absent in tests of this layer

// In the section in which everything lies that only says so (guest-allocator/unsupported.sh).
#define UNSUPPORTED(name)                                                                                  \
    extern "C" __attribute__((visibility("default"), section("barcuda_unsupported"))) cudaError_t name() { \
        static constinit int told = 0;                                                                     \
        if (barcuda_refuse) barcuda_refuse(#name, &told);                                                  \
        return barcuda::runtime::record_unsupported();                                                     \
    }
