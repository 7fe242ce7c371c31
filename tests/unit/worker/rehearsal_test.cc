// SPDX-License-Identifier: Apache-2.0
// rehearsal_test: what a worker does before its client comes, and that nothing is left of it.
#include "host-bridge/worker/rehearsal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "host-bridge/between/device_choice.h"

namespace barcuda {
namespace {

// The software GPU, and which of its functions were called.
Driver gpu;
std::set<std::string> called;
unsigned events = 0;  // that are there
void* registered = nullptr;

template <auto member, class F> struct Listed;
template <auto member, class R, class... P> struct Listed<member, R (*)(P...)> {
    static inline const char* name = "?";
    static R call(P... arguments) {
        called.insert(name);
        return (gpu.*member)(arguments...);
    }
};
template <auto member> void list(Driver& driver, const char* name) {
    using Its = Listed<member, std::remove_reference_t<decltype(gpu.*member)>>;
    Its::name = name;
    driver.*member = &Its::call;
}

Driver listed() {
    Driver driver = gpu;
    list<&Driver::cuMemsetD32Async>(driver, "fill");
    list<&Driver::cuMemcpyHtoDAsync_v2>(driver, "copy");
    list<&Driver::cuEventRecord>(driver, "record");
    list<&Driver::cuStreamWriteValue64_v2>(driver, "word");
    list<&Driver::cuStreamQuery>(driver, "query");
    driver.cuEventCreate = [](CUevent* event, unsigned flags) {
        ++events;
        return gpu.cuEventCreate(event, flags);
    };
    driver.cuEventDestroy_v2 = [](CUevent event) {
        --events;
        return gpu.cuEventDestroy_v2(event);
    };
    driver.cuMemHostRegister_v2 = [](void* p, std::size_t bytes, unsigned flags) {
        registered = p;
        return gpu.cuMemHostRegister_v2(p, bytes, flags);
    };
    return driver;
}

class RehearsalTest : public testing::Test {
  protected:
    CUcontext context = nullptr;
    RehearsalTest() {
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
        if (gpu.library.empty()) { EXPECT_EQ("", gpu.open(software_library()).text()); }
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuInit(0));
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSetCurrent(context));
        called.clear();
        registered = nullptr;
    }
    ~RehearsalTest() override { gpu.cuDevicePrimaryCtxRelease_v2(0); }
    static std::size_t free_memory() {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuMemGetInfo_v2(&free, &total));
        return free;
    }
};

TEST_F(RehearsalTest, DoesOnceWhatAFirstLaunchNeeds) {
    rehearse(listed());
    EXPECT_EQ(called, (std::set<std::string>{"copy", "fill", "query", "record", "word"}));
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize()) << "nothing of it has failed on the GPU";
}
TEST_F(RehearsalTest, LeavesNothing) {
    const std::size_t before = free_memory();
    rehearse(listed());
    EXPECT_EQ(free_memory(), before);
    EXPECT_EQ(events, 0u);
    ASSERT_NE(registered, nullptr);
    EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, gpu.cuMemHostUnregister(registered));
    CUcontext current = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxGetCurrent(&current));
    EXPECT_EQ(current, context);
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuStreamQuery(nullptr)) << "and the GPU has nothing more to do";
}
TEST_F(RehearsalTest, TouchesNoMemoryThatCannotBeRegistered) {
    Driver driver = listed();
    driver.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; };
    rehearse(driver);
    EXPECT_EQ(called, std::set<std::string>{});
}

}  // namespace
}  // namespace barcuda
