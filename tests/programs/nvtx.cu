// SPDX-License-Identifier: Apache-2.0
// nvtx.cu: a program that says what it is about, as profilers see it: ranges of a thread and of the process, marks,
// names of threads, categories and domains, text of every kind. NVTX does nothing where no tool listens.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "check.h"

__global__ void add(int* to, int value) { to[threadIdx.x] += value; }

static nvtxEventAttributes_t says(const char* text) {
    nvtxEventAttributes_t a = {};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = text;
    return a;
}

int main() {
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the main thread");
    const nvtxDomainHandle_t physics = nvtxDomainCreateA("physics");
    nvtxDomainNameCategoryA(physics, 7, "collisions");
    nvtxNameCategoryA(7, "files");
    const nvtxStringHandle_t known = nvtxDomainRegisterStringA(physics, "a registered string");

    nvtxRangePushA("whole");
    int* memory = nullptr;
    CHECK(cudaMalloc((void**)&memory, 32 * sizeof(int)));
    CHECK(cudaMemset(memory, 0, 32 * sizeof(int)));
    const nvtxRangeId_t across = nvtxRangeStartA("across threads");
    for (int i = 0; i < 3; ++i) {
        nvtxEventAttributes_t step = says("step");
        step.payloadType = NVTX_PAYLOAD_TYPE_INT32;
        step.payload.iValue = i;
        step.category = 7;
        nvtxRangePushEx(&step);
        add<<<1, 32>>>(memory, i);
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
    }
    std::thread([&] {
        nvtxMarkW(L"gr\u00fc\u00dfe \u4e16\u754c");
        nvtxRangeEnd(across);
    }).join();

    nvtxEventAttributes_t of = says("");
    of.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    of.message.registered = known;
    of.category = 7;
    nvtxDomainRangePushEx(physics, &of);
    nvtxEventAttributes_t odd = says("a \"quote\", a \\, a \n and a stray \xff");
    nvtxDomainMarkEx(physics, &odd);
    nvtxDomainRangePop(physics);
    nvtxRangePop();
    nvtxRangePop();  // one too many: nothing happens

    int back[32];
    CHECK(cudaMemcpy(back, memory, sizeof back, cudaMemcpyDeviceToHost));
    REQUIRE(back[0] == 3 && back[31] == 3);
    nvtxDomainDestroy(physics);
    return verdict(0);
}
