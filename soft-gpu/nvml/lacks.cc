// SPDX-License-Identifier: Apache-2.0
// lacks.cc: functions for properties that software lacks: a weak definition each, which a definition in nvml.cc
// overrides.
#include "shm-device/cuda/nvml.h"
#include "shm-device/rows/nvml.h"

#define X(name, ...)                                                                    \
    extern "C" [[gnu::weak, gnu::visibility("default")]] barcuda::nvml::Status name() { \
        return barcuda::nvml::not_supported;                                            \
    }
BARCUDA_NVML_ROWS(X)
#undef X
