// SPDX-License-Identifier: Apache-2.0
// verdict.h: what a check on the host says of a request.
#pragma once
#include <cuda.h>

namespace barcuda {

// The request may run; it is a program's mistake, answered with this CUresult; or it is something that no honest
// library sends, and the client's session ends.
struct Verdict {
    CUresult result = CUDA_SUCCESS;
    bool lie = false;
    bool ok() const { return !lie && result == CUDA_SUCCESS; }
};
constexpr Verdict fine{}, a_lie{CUDA_SUCCESS, true};
constexpr Verdict bad_value{CUDA_ERROR_INVALID_VALUE}, bad_handle{CUDA_ERROR_INVALID_HANDLE};
constexpr Verdict not_supported{CUDA_ERROR_NOT_SUPPORTED};
constexpr Verdict honest(bool yes) { return yes ? fine : a_lie; }

}  // namespace barcuda
