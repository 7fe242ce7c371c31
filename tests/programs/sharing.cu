// SPDX-License-Identifier: Apache-2.0
// sharing.cu: two processes share device memory and events (cudaIpc*). One owns the memory; the other, forked before
// either has touched CUDA, opens it. They tell each other by pipes, as soon as a call has returned: whatever order CUDA
// promises must come from the events.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

constexpr int count = 1 << 20, rounds = 20;

__global__ void put(int* data, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) data[i] = i + value;
}
__global__ void add(int* data, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) data[i] += value;
}
// Counts in *wrong what is not i + value.
__global__ void look(const int* data, int value, int* wrong) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        if (data[i] != i + value) atomicAdd(wrong, 1);
}

struct Pipe {
    int ends[2];
    Pipe() { REQUIRE(pipe(ends) == 0); }
    template <class T> void send(const T& it) const { REQUIRE(write(ends[1], &it, sizeof it) == sizeof it); }
    template <class T = char> T receive() const {
        T it;
        REQUIRE(read(ends[0], &it, sizeof it) == sizeof it);
        return it;
    }
};

// What travels.
struct Shown {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

static cudaEvent_t shared_event(cudaIpcEventHandle_t& handle) {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetEventHandle(&handle, event));
    return event;
}

static int owner(const Pipe& to, const Pipe& from) {
    int *data, *wrong;
    Shown shown;
    CHECK(cudaMalloc((void**)&data, count * sizeof(int)));
    CHECK(cudaMallocManaged((void**)&wrong, sizeof(int)));
    *wrong = 0;
    CHECK(cudaIpcGetMemHandle(&shown.memory, data));
    const cudaEvent_t mine = shared_event(shown.event);
    to.send(shown);
    cudaEvent_t theirs;
    CHECK(cudaIpcOpenEventHandle(&theirs, from.receive<cudaIpcEventHandle_t>()));
    CHECK(cudaEventQuery(theirs));  // never recorded

    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < rounds; ++round) {
        put<<<32, 256, 0, stream>>>(data, 10 * round);
        CHECK(cudaEventRecord(mine, stream));
        to.send('r');
        from.receive();
        if (round % 2) CHECK(cudaStreamWaitEvent(stream, theirs, 0));
        else CHECK(cudaEventSynchronize(theirs));
        look<<<32, 256, 0, stream>>>(data, 10 * round + 7, wrong);
    }
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(*wrong == 0);

    // What cannot be shared.
    void *pinned, *none;
    cudaEvent_t plain;
    cudaIpcEventHandle_t handle;
    CHECK(cudaMallocHost(&pinned, 4096));
    REQUIRE(cudaIpcGetMemHandle(&shown.memory, pinned) != cudaSuccess);
    CHECK(cudaEventCreate(&plain));
    REQUIRE(cudaIpcGetEventHandle(&handle, plain) != cudaSuccess);
    REQUIRE(cudaIpcOpenMemHandle(&none, {}, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
    CHECK(cudaIpcGetMemHandle(&shown.memory, data));
    REQUIRE(cudaIpcOpenMemHandle(&none, shown.memory, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);  // our own
    cudaGetLastError();

    to.send('e');
    from.receive();  // they have closed it
    CHECK(cudaEventDestroy(theirs));
    CHECK(cudaFree(data));
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int guest(const Pipe& to, const Pipe& from) {
    const Shown shown = from.receive<Shown>();
    int *data, *again, *wrong;
    CHECK(cudaIpcOpenMemHandle((void**)&data, shown.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenMemHandle((void**)&again, shown.memory, cudaIpcMemLazyEnablePeerAccess));
    REQUIRE(data == again);  // opened twice, mapped once
    CHECK(cudaIpcCloseMemHandle(again));
    CHECK(cudaMallocManaged((void**)&wrong, sizeof(int)));
    *wrong = 0;
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, data));
    REQUIRE(attributes.type == cudaMemoryTypeDevice);
    cudaEvent_t theirs;
    CHECK(cudaIpcOpenEventHandle(&theirs, shown.event));
    cudaIpcEventHandle_t handle;
    const cudaEvent_t mine = shared_event(handle);
    to.send(handle);

    int* copy = (int*)malloc(count * sizeof(int));
    for (int round = 0; round < rounds; ++round) {
        from.receive();
        CHECK(cudaStreamWaitEvent(0, theirs, 0));
        look<<<32, 256>>>(data, 10 * round, wrong);
        add<<<32, 256>>>(data, 7);
        CHECK(cudaEventRecord(mine));
        if (round == rounds / 2) {  // copies reach it as well
            CHECK(cudaMemcpy(copy, data, count * sizeof(int), cudaMemcpyDeviceToHost));
            for (int i = 0; i < count; ++i) *wrong += copy[i] != i + 10 * round + 7;
        }
        to.send('r');
    }
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*wrong == 0);
    from.receive();
    CHECK(cudaIpcCloseMemHandle(data));
    REQUIRE(cudaIpcCloseMemHandle(data) != cudaSuccess);
    cudaGetLastError();
    CHECK(cudaEventDestroy(theirs));
    to.send('e');
    return 0;
}

int main() {
    const Pipe there, back;
    const pid_t pid = fork();
    // A process that waits for one that has failed must hear of it.
    if (pid == 0) {
        close(there.ends[1]), close(back.ends[0]);
        exit(guest(back, there));
    }
    close(there.ends[0]), close(back.ends[1]);
    const int failed = owner(there, back);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    REQUIRE(status == 0);
    return verdict(failed);
}
