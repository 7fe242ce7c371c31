// SPDX-License-Identifier: Apache-2.0
// which_devices.cu: the devices that this program sees, a line each: number, UUID, place on the bus, and the UUID that
// a driver's question finds by that place. Each is used. `how` is printed where there are none. An argument NAME=VALUE
// is put into the environment before CUDA is asked anything, as programs do.
#include <cstring>

#include "driver.h"

__global__ void answer(int* to, int value) { *to = value; }

static void print(const unsigned char* uuid) {
    for (int i = 0; i < 16; ++i) printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) putenv(argv[i]);
    int version = 0;
    CHECK(cudaDriverGetVersion(&version));
    REQUIRE(version >= 11000);
    int count = -1;
    const cudaError_t how = cudaGetDeviceCount(&count);
    if (how != cudaSuccess) {  // then a count is no answer
        printf("no device: %s\n", cudaGetErrorName(how));
        int device = 0;
        REQUIRE(cudaSetDevice(0) == how);
        REQUIRE(cudaGetDevice(&device) == how);
        printf("PASSED\n");
        return 0;
    }
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp its;
        char place[32];
        int found = -1, *memory = nullptr, value = 0;
        CHECK(cudaGetDeviceProperties(&its, i));
        CHECK(cudaDeviceGetPCIBusId(place, sizeof place, i));
        CHECK(cudaDeviceGetByPCIBusId(&found, place));
        REQUIRE(found == i);
        printf("%d GPU-", i), print((const unsigned char*)its.uuid.bytes), printf(" %s\n", place);
        CHECK(cudaSetDevice(i));
        CHECK(cudaMalloc((void**)&memory, sizeof(int)));
        answer<<<1, 1>>>(memory, 41 + i);
        CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
        REQUIRE(value == 41 + i);
        cudaPointerAttributes of;
        CHECK(cudaPointerGetAttributes(&of, memory));
        REQUIRE(of.device == i);
    }
    REQUIRE(cudaSetDevice(count) == cudaErrorInvalidDevice);
    return verdict(0);
}
