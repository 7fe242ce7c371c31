// SPDX-License-Identifier: Apache-2.0
// lacks.cc: what a guest may be asked and a piece of software has not: a weak definition each, so that what nvml.cc has wins.
#include "shm-device/cuda/nvml.h"
#include "shm-device/rows/nvml.h"

#define X(name, ...)                                                                    \
    extern "C" [[gnu::weak, gnu::visibility("default")]] barcuda::nvml::Status name() { \
        return barcuda::nvml::not_supported;                                            \
    }
BARCUDA_NVML_ROWS(X)
#undef X
