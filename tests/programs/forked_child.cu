// SPDX-License-Identifier: Apache-2.0
// forked_child: in a process that was forked after CUDA was initialized each call answers cudaErrorInitializationError,
// whether it would have asked the device or not. What tells about the library itself is answered.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

__global__ void nothing() {}
static void CUDART_CB called(void*) {}
static int wrong = 0;
static void expect(const char* call, int got, int expected) {
    if (got != expected) printf("%s: %d\n", call, got), ++wrong;
}
#define REFUSED(call) expect(#call, call, cudaErrorInitializationError)
#define ANSWERED(call) expect(#call, call, 0)

int main() {
    cudaStream_t stream;
    cudaEvent_t event;
    int *device, *pinned, *managed;
    static char memory[1 << 20];
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMallocHost(&pinned, sizeof *pinned));
    CHECK(cudaMallocManaged(&managed, sizeof *managed));
    const auto count = entry<CUresult (*)(int*)>("cuDeviceGetCount");
    const auto get = entry<CUresult (*)(CUdevice*, int)>("cuDeviceGet");
    const auto attribute = entry<CUresult (*)(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
    const auto current = entry<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
    const auto make_current = entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent");
    const auto retain = entry<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
    const auto version = entry<CUresult (*)(int*)>("cuDriverGetVersion");
    const auto init = entry<CUresult (*)(unsigned)>("cuInit");
    CHECK(cudaDeviceSynchronize());
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        alarm(60);  // a call that waits
        void* p = nullptr;
        int number = 0;
        size_t one = 0, two = 0;
        CUcontext context;
        cudaPointerAttributes attributes;
        cudaDeviceProp properties;
        REFUSED(cudaMalloc(&p, 100));
        REFUSED(cudaMallocHost(&p, 100));
        REFUSED(cudaHostAlloc(&p, 100, cudaHostAllocMapped));
        REFUSED(cudaMallocManaged(&p, 100));
        REFUSED(cudaHostRegister(memory, sizeof memory, 0));
        REFUSED(cudaHostUnregister(memory));
        REFUSED(cudaHostGetFlags(reinterpret_cast<unsigned*>(&number), pinned));
        REFUSED(cudaFree(device));
        REFUSED(cudaFree(managed));
        REFUSED(cudaFreeHost(pinned));
        REFUSED(cudaMemcpy(memory, pinned, 4, cudaMemcpyDefault));
        REFUSED(cudaMemset(device, 0, 4));
        REFUSED(cudaPointerGetAttributes(&attributes, pinned));
        REFUSED(cudaMemGetInfo(&one, &two));
        REFUSED(cudaStreamSynchronize(stream));
        REFUSED(cudaStreamQuery(stream));
        REFUSED(cudaStreamDestroy(stream));
        REFUSED(cudaEventQuery(event));
        REFUSED(cudaEventDestroy(event));
        REFUSED(cudaLaunchHostFunc(stream, called, nullptr));
        nothing<<<1, 1>>>();
        REFUSED(cudaGetLastError());
        REFUSED(cudaDeviceSynchronize());
        ANSWERED(cudaGetDeviceCount(&number));  // what the parent knew
        REFUSED(cudaGetDevice(&number));
        REFUSED(cudaSetDevice(0));
        REFUSED(cudaGetDeviceProperties(&properties, 0));
        REFUSED(init(0));
        REFUSED(count(&number));
        REFUSED(get(&number, 0));
        REFUSED(attribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        REFUSED(current(&context));
        REFUSED(make_current(nullptr));
        REFUSED(retain(&context, 0));
        ANSWERED(version(&number));
        ANSWERED(cudaRuntimeGetVersion(&number));
        ANSWERED(strcmp(cudaGetErrorName(cudaErrorInitializationError), "cudaErrorInitializationError"));
        _exit(fflush(stdout) || wrong ? 1 : 0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (status) printf("the child ended with %x\n", status);
    *managed = 5;
    CHECK(cudaMemcpy(device, managed, sizeof *device, cudaMemcpyDefault));
    return verdict(status != 0);
}
