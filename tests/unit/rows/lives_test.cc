// SPDX-License-Identifier: Apache-2.0
// lives_test: what rows leave behind, of each kind of call: what a client's objects were born from, and what has
// changed them since, must be found from the rows alone.
#include "shm-device/rows/lives.h"

#include <gtest/gtest.h>

#include <string>

namespace barcuda {
namespace {

template <Op op> std::string left_behind() {
    std::string all;
    for (const auto& [leaves, what] :
         {std::pair{births<op>, "births "}, {names<op>, "names "}, {lasts<op>, "lasts "}, {ends<op>, "ends "}})
        if (leaves) all += what;
    if (!all.empty()) all.pop_back();
    return all;
}
template <Op op> void leaves(const std::string& what) {
    EXPECT_EQ(left_behind<op>(), what) << op_names[static_cast<std::size_t>(op)];
}
template <Op... op> void leave(const std::string& what) { (leaves<op>(what), ...); }

using enum Op;

TEST(Lives, BeginWithWhatIsMade) {
    leave<cuMemAlloc_v2, cuMemAllocAsync, cuMemAllocPitch_v2, cuMemAddressReserve, cuMemCreate, cuMemPoolCreate,
          cuArrayCreate_v2, cuStreamCreateWithPriority, cuEventCreate, cuGraphCreate, cuGraphInstantiateWithFlags,
          cuTexObjectCreate, cuGraphConditionalHandleCreate, create_context, load_module, load_library, link_create,
          cuIpcOpenMemHandle_v2, cublasCreate_v2, curandCreateGenerator>("births");
}
TEST(Lives, HaveNamesForWhatTheDriverHadAlready) {
    leave<cuDevicePrimaryCtxRetain, cuModuleGetFunction, find_function, function_of_kernel, cuLibraryGetKernel,
          cuDeviceGetDefaultMemPool, cuGraphGetNodes, cuGraphGetEdges_v2, cuGraphNodeGetDependencies_v2,
          cuGraphChildGraphNodeGetGraph, kernel_node, cuTexObjectGetResourceDesc, capture_info, retain_memory>("names");
    leave<cuModuleGetGlobal_v2, cuLibraryGetGlobal, cuLibraryGetManaged>("names");  // an address that must come again
    leave<cuStreamEndCapture, add_kernel_node, cuGraphAddEmptyNode, exec_update>("names lasts");
}
TEST(Lives, ChangeByWhatLasts) {
    leave<cuCtxSetLimit, cuCtxSetCacheConfig, cuCtxSetFlags, cuCtxEnablePeerAccess, cuMemPoolSetAttribute,
          cuMemPoolSetAccess, cuMemMap, cuMemSetAccess, cuFuncSetAttribute, cuKernelSetAttribute, cuFuncSetCacheConfig,
          cuFuncLoad, cuStreamSetAttribute, cuStreamCopyAttributes, cuStreamBeginCapture_v2, exec_set_kernel_node,
          cuGraphNodeSetEnabled, cuGraphExecMemcpyNodeSetParams, cuGraphAddDependencies_v2,
          cuDeviceSetGraphMemAttribute, set_pointer_attribute, link_add, cublasSetMathMode, curandSetStream>("lasts");
    leave<record_event, cuEventRecordWithFlags, cuCtxRecordEvent>("lasts");  // an event that was recorded differs
    leave<curandGenerate, curandGeneratePoisson>("lasts");                   // the next numbers are others
}
TEST(Lives, EndWithWhatIsDropped) {
    leave<cuMemFree_v2, cuMemFreeAsync, cuMemUnmap, cuMemAddressFree, cuMemRelease, cuStreamDestroy_v2,
          cuGraphExecDestroy, cuModuleUnload, cuTexObjectDestroy, cuDevicePrimaryCtxReset_v2, cuIpcCloseMemHandle>(
        "ends");
}
TEST(Lives, AreLeftAloneByQuestionsAndByWork) {
    leave<cuMemGetInfo_v2, cuMemGetAddressRange_v2, cuGraphMemFreeNodeGetParams, cuGraphMemAllocNodeGetParams,
          cuMemGetAllocationPropertiesFromHandle, cuTexObjectGetTextureDesc, cuTexObjectGetResourceViewDesc,
          cuStreamQuery, cuEventElapsedTime_v2, pointer_attribute, describe_function, cublasGetMathMode,
          curandGetVersion>("");
    leave<launch, cuGraphLaunch, cuMemsetD8Async, cuMemcpyDtoDAsync_v2, copy_out, write_fence, launch_host>("");
}

}  // namespace
}  // namespace barcuda
