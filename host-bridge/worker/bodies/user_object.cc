// SPDX-License-Identifier: Apache-2.0
// user_object.cc: objects of the program that graphs keep (CUuserObject). (The guest's half:
// guest-allocator/driver/user_object.cc.)
#include "host-bridge/worker/bodies/body.h"

namespace barcuda {

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
