// SPDX-License-Identifier: Apache-2.0
// user_object.cc: objects of the program that graphs keep, and release when their last user is gone. The destructor is
// the program's: it is called here when the worker asks for it.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_function.h"

using namespace barcuda::guest;

CU cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
    if (!object || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t function = await_function(destroy, data);
    if (!function) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = command<Op::create_user_object>(object, function, references, flags);
    if (r != CUDA_SUCCESS) forget_function(function);
    return r;
}
