// SPDX-License-Identifier: Apache-2.0
// What the software GPU reports, before and after cuInit.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/unit/support/soft_fixture.h"

namespace {

struct SoftDevice : SoftGpu {};

TEST_F(SoftDevice, CallsItselfByItsOwnName) {
    char name[100];
    OK(cuDeviceGetName(name, sizeof name, device));
    EXPECT_EQ(0u, std::string(name).find("Barcuda software GPU ("));
}

TEST_F(SoftDevice, IsOneDevice) {
    int count = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(1, count);
    CUdevice other;
    SAYS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&other, 1));
}

TEST_F(SoftDevice, AnswersEveryAttribute) {
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; ++i) {
        int value = -77;
        OK(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), device)) << i;
        EXPECT_NE(-77, value) << i;
    }
    int value;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, device));
}

TEST_F(SoftDevice, HasTheConfiguredMemory) {
    std::size_t total = 0;
    OK(cuDeviceTotalMem(&total, device));
    EXPECT_EQ(256u << 20, total);
}

TEST_F(SoftDevice, IsFoundByItsPciBusId) {
    char id[20];
    OK(cuDeviceGetPCIBusId(id, sizeof id, device));
    CUdevice found = -1;
    OK(cuDeviceGetByPCIBusId(&found, id));
    EXPECT_EQ(device, found);
    SAYS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&found, "0000:01:00.0"));
}

TEST_F(SoftDevice, SpeaksForCuda13) {
    int version = 0;
    OK(cuDriverGetVersion(&version));
    EXPECT_EQ(13000, version);
}

TEST(SoftErrors, HaveNamesAndTexts) {
    const char* text = nullptr;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    EXPECT_STREQ("CUDA_ERROR_ILLEGAL_ADDRESS", text);
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    EXPECT_STREQ("an illegal memory access was encountered", text);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(static_cast<CUresult>(12345), &text));
    EXPECT_EQ(nullptr, text);
}

// ---- entry points ---------------------------------------------------------------------------------------------------

TEST(SoftEntryPoints, AVersionIsThatOfTheAskedCuda) {
    void *oldest = nullptr, *newest = nullptr;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuCtxCreate", &oldest, 3020, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    OK(cuGetProcAddress("cuCtxCreate", &newest, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT_NE(oldest, newest);
    EXPECT_EQ(reinterpret_cast<void*>(&cuCtxCreate_v4), newest);
}

TEST(SoftEntryPoints, AnUnknownNameIsNotFound) {
    void* found = &found;
    CUdriverProcAddressQueryResult status;
    SAYS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuTensorMapEncodeTiled", &found, 13000, 0, &status));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
    EXPECT_EQ(nullptr, found);
}

TEST(SoftEntryPoints, ATooOldCudaIsNotSufficient) {
    void* found;
    CUdriverProcAddressQueryResult status;
    SAYS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemAllocAsync", &found, 10000, 0, &status));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
}

TEST(SoftEntryPoints, ThePerThreadTwinIsAnotherFunction) {
    void *legacy = nullptr, *own = nullptr;
    OK(cuGetProcAddress("cuMemcpyHtoDAsync", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr));
    OK(cuGetProcAddress("cuMemcpyHtoDAsync", &own, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
    EXPECT_NE(legacy, own);
}

// ---- processes ------------------------------------------------------------------------------------------------------

int exit_status_of(void (*body)()) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);  // never hang the suite
        body();
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(SoftDevice, AForkedChildOfAnInitializedParentHasNone) {
    EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, exit_status_of([] {
                  int count;
                  _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? cuDeviceGetCount(&count) : 99);
              }));
}

// Runs this program again, so that it starts without a driver.
TEST(SoftProcess, ExitWithWorkInFlightNeitherHangsNorCrashes) {
    EXPECT_EQ(7, exit_status_of([] {
                  execl("/proc/self/exe", "soft_device_test", "--gtest_also_run_disabled_tests",
                        "--gtest_filter=SoftProcess.DISABLED_ExitsWithAWaitingStream", nullptr);
              }));
}
TEST(SoftProcess, DISABLED_ExitsWithAWaitingStream) {
    CUcontext context;
    CUstream stream;
    CUdeviceptr word;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&word, 4));
    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());  // the stream does not wait for the default stream
    OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    std::exit(7);
}

TEST(SoftProcess, AChildMayInitializeWhatItsParentHasNot) {
    EXPECT_EQ(0, exit_status_of([] {
                  execl("/proc/self/exe", "soft_device_test", "--gtest_also_run_disabled_tests",
                        "--gtest_filter=SoftProcess.DISABLED_ForksBeforeInit", nullptr);
              }));
}
TEST(SoftProcess, DISABLED_ForksBeforeInit) {
    EXPECT_EQ(CUDA_SUCCESS, exit_status_of([] {
                  int count = 0;
                  const CUresult result = cuInit(0);
                  _exit(result != CUDA_SUCCESS ? result : cuDeviceGetCount(&count));
              }));
}

TEST(SoftProcess, BeforeInitEveryCallSaysSo) {
    EXPECT_EQ(0, exit_status_of([] {
                  execl("/proc/self/exe", "soft_device_test", "--gtest_also_run_disabled_tests",
                        "--gtest_filter=SoftProcess.DISABLED_CallsBeforeInit", nullptr);
              }));
}
TEST(SoftProcess, DISABLED_CallsBeforeInit) {
    int count;
    CUcontext context;
    SAYS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    SAYS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
}

}  // namespace
