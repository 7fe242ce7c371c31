// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/user_objects.h"

#include "host-bridge/worker/body.h"

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

namespace ext {
CUresult create_user_object(CUuserObject* object, std::uint64_t destroy, unsigned references, unsigned flags) {
    return session().user_objects().create(object, destroy, references, flags);
}
}  // namespace ext

namespace {
template <class Function, class... Arguments>
CUresult if_there(CUuserObject object, Function function, Arguments... arguments) {
    if (!function) return CUDA_ERROR_NOT_SUPPORTED;
    return session().user_objects().there(object) ? function(arguments...) : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace

namespace body {
BODY(cuUserObjectRetain)(CUuserObject object, unsigned count) {
    return if_there(object, driver().cuUserObjectRetain, object, count);
}
BODY(cuUserObjectRelease)(CUuserObject object, unsigned count) {
    return if_there(object, driver().cuUserObjectRelease, object, count);
}
BODY(cuGraphRetainUserObject)(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    return if_there(object, driver().cuGraphRetainUserObject, graph, object, count, flags);
}
BODY(cuGraphReleaseUserObject)(CUgraph graph, CUuserObject object, unsigned count) {
    return if_there(object, driver().cuGraphReleaseUserObject, graph, object, count);
}
}  // namespace body

}  // namespace barcuda
