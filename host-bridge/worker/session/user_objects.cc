// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/user_objects.h"

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/session/calls.h"

namespace barcuda {

CUresult UserObjects::create(CUuserObject* object, std::uint64_t destroy, unsigned references, unsigned flags) {
    if (!driver_.cuUserObjectCreate) return CUDA_ERROR_NOT_SUPPORTED;
    auto made = std::make_unique<Object>(Object{destroy, this});
    if (CUresult r = driver_.cuUserObjectCreate(object, made.get(), &destroyed, references, flags); r != CUDA_SUCCESS)
        return r;
    std::lock_guard lock(mutex_);
    made->handle = *object;
    objects_[*object] = std::move(made);
    return CUDA_SUCCESS;
}

bool UserObjects::there(CUuserObject object) const {
    std::lock_guard lock(mutex_);
    return objects_.contains(object);
}

void CUDA_CB UserObjects::destroyed(void* data) {
    Object* object = static_cast<Object*>(data);
    const std::uint64_t function = object->destroy;
    {
        UserObjects& all = *object->all;
        std::lock_guard lock(all.mutex_);
        all.objects_.erase(object->handle);
    }
    Calls::run(Calls::as_data(function));
}

}  // namespace barcuda
