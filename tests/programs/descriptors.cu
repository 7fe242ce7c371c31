// SPDX-License-Identifier: Apache-2.0
// descriptors.cu: two processes share memory without an address (cuMemCreate) and a pool, as file descriptors that go
// over a UNIX socket. One gives; the other, forked before either has touched CUDA, takes. The one that takes writes,
// the one that gives sees it; a descriptor keeps its memory when the process that made it has released everything
// else, and so does a process that has mapped it.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "driver.h"

constexpr int count = 1 << 19;  // of ints: 2 MiB, a granule of all that we know
constexpr auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

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
static void require_all(const int* data, int value) {
    static int* wrong = nullptr;
    if (!wrong) CHECK(cudaMallocManaged((void**)&wrong, sizeof *wrong));
    *wrong = 0;
    look<<<32, 256>>>(data, value, wrong);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*wrong == 0);
}

struct Socket {
    int end;
    template <class T> void send(const T& it, int descriptor = -1) const {
        iovec bytes{(void*)&it, sizeof it};
        alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = &bytes, message.msg_iovlen = 1;
        if (descriptor >= 0) {
            message.msg_control = room, message.msg_controllen = sizeof room;
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
        }
        REQUIRE(sendmsg(end, &message, MSG_NOSIGNAL) == (ssize_t)sizeof it);
    }
    template <class T = char> T receive(int* descriptor = nullptr) const {
        T it;
        iovec bytes{&it, sizeof it};
        alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
        msghdr message{};
        message.msg_iov = &bytes, message.msg_iovlen = 1;
        message.msg_control = room, message.msg_controllen = sizeof room;
        REQUIRE(recvmsg(end, &message, 0) == (ssize_t)sizeof it);
        const cmsghdr* c = CMSG_FIRSTHDR(&message);
        REQUIRE((c != nullptr) == (descriptor != nullptr));
        if (c) memcpy(descriptor, CMSG_DATA(c), sizeof *descriptor);
        return it;
    }
};

// What a process needs of the driver.
struct Gpu {
    decltype(&cuMemCreate) create = entry<decltype(create)>("cuMemCreate");
    decltype(&cuMemRelease) release = entry<decltype(release)>("cuMemRelease");
    decltype(&cuMemAddressReserve) reserve = entry<decltype(reserve)>("cuMemAddressReserve");
    decltype(&cuMemAddressFree) free_address = entry<decltype(free_address)>("cuMemAddressFree");
    decltype(&cuMemMap) map = entry<decltype(map)>("cuMemMap");
    decltype(&cuMemUnmap) unmap = entry<decltype(unmap)>("cuMemUnmap");
    decltype(&cuMemSetAccess) set_access = entry<decltype(set_access)>("cuMemSetAccess");
    decltype(&cuMemGetAllocationGranularity) granularity =
        entry<decltype(granularity)>("cuMemGetAllocationGranularity");
    decltype(&cuMemExportToShareableHandle) export_to = entry<decltype(export_to)>("cuMemExportToShareableHandle");
    decltype(&cuMemImportFromShareableHandle) import_from =
        entry<decltype(import_from)>("cuMemImportFromShareableHandle");
    decltype(&cuMemRetainAllocationHandle) retain = entry<decltype(retain)>("cuMemRetainAllocationHandle");
    decltype(&cuMemGetAllocationPropertiesFromHandle) properties_of =
        entry<decltype(properties_of)>("cuMemGetAllocationPropertiesFromHandle");

    static CUmemAllocationProp properties(CUmemAllocationHandleType type = posix) {
        CUmemAllocationProp p{};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        p.requestedHandleTypes = type;
        return p;
    }
    size_t bytes() const {
        const CUmemAllocationProp p = properties();
        size_t granule = 0;
        DRIVER(granularity(&granule, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        return (count * sizeof(int) + granule - 1) / granule * granule;
    }
    CUmemGenericAllocationHandle memory(CUmemAllocationHandleType type = posix) const {
        const CUmemAllocationProp p = properties(type);
        CUmemGenericAllocationHandle made;
        DRIVER(create(&made, bytes(), &p, 0));
        return made;
    }
    int* mapped(CUmemGenericAllocationHandle memory) const {
        CUdeviceptr at;
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        DRIVER(reserve(&at, bytes(), 0, 0, 0));
        DRIVER(map(at, bytes(), 0, memory, 0));
        DRIVER(set_access(at, bytes(), &access, 1));
        return (int*)at;
    }
    void unmapped(int* data) const {
        CHECK(cudaDeviceSynchronize());
        DRIVER(unmap((CUdeviceptr)data, bytes()));
        DRIVER(free_address((CUdeviceptr)data, bytes()));
    }
    int descriptor(CUmemGenericAllocationHandle memory) const {
        int made = -1;
        DRIVER(export_to(&made, memory, posix, 0));
        REQUIRE(made >= 0);
        return made;
    }
    CUresult import(CUmemGenericAllocationHandle* memory, int descriptor) const {
        return import_from(memory, (void*)(intptr_t)descriptor, posix);
    }
};

static void refusals(const Gpu& gpu) {
    CUmemGenericAllocationHandle none;
    int descriptor = -1, pipes[2];
    const auto mine = gpu.memory(CU_MEM_HANDLE_TYPE_NONE), shown = gpu.memory();
    REQUIRE(gpu.export_to(&descriptor, mine, posix, 0) != CUDA_SUCCESS);
    REQUIRE(gpu.export_to(&descriptor, shown, CU_MEM_HANDLE_TYPE_FABRIC, 0) != CUDA_SUCCESS);
    REQUIRE(gpu.export_to(&descriptor, shown, posix, 1) != CUDA_SUCCESS);
    DRIVER(gpu.release(mine));
    DRIVER(gpu.release(shown));
    const int null = open("/dev/null", O_RDWR);
    REQUIRE(pipe(pipes) == 0 && null >= 0);
    for (int no : {null, pipes[0], pipes[1], -1}) REQUIRE(gpu.import(&none, no) != CUDA_SUCCESS);
    for (int no : {null, pipes[0], pipes[1]}) close(no);
}

static void give_memory(const Gpu& gpu, const Socket& other) {
    CUmemAllocationProp p{};
    const auto memory = gpu.memory();
    DRIVER(gpu.properties_of(&p, memory));
    REQUIRE(p.requestedHandleTypes == posix && p.location.type == CU_MEM_LOCATION_TYPE_DEVICE && p.location.id == 0);
    int* data = gpu.mapped(memory);
    CUmemGenericAllocationHandle again;
    DRIVER(gpu.retain(&again, data + 100));
    REQUIRE(again == memory);
    DRIVER(gpu.release(again));  // what is retained is released as often
    put<<<32, 256>>>(data, 1);
    CHECK(cudaDeviceSynchronize());
    int descriptor = gpu.descriptor(memory);
    other.send('m', descriptor);
    close(descriptor);
    other.receive();
    require_all(data, 11);  // they have added ten

    gpu.unmapped(data);
    DRIVER(gpu.release(memory));
    REQUIRE(gpu.release(memory) != CUDA_SUCCESS);
    other.send('g');  // it is gone here
    other.receive();

    // A descriptor alone.
    const auto left = gpu.memory();
    data = gpu.mapped(left);
    put<<<32, 256>>>(data, 2);
    descriptor = gpu.descriptor(left);
    const int same = dup(descriptor);
    close(descriptor);
    gpu.unmapped(data);
    DRIVER(gpu.release(left));
    DRIVER(gpu.release(gpu.memory()));
    other.send('m', same);
    close(same);
    DRIVER(gpu.release(gpu.memory()));  // it is on its way, or there
    other.receive();
}

static void take_memory(const Gpu& gpu, const Socket& other) {
    int descriptor;
    CUmemGenericAllocationHandle memory, twice;
    other.receive(&descriptor);
    DRIVER(gpu.import(&memory, descriptor));
    DRIVER(gpu.import(&twice, descriptor));
    close(descriptor);
    DRIVER(gpu.release(twice));
    CUmemAllocationProp p{};
    DRIVER(gpu.properties_of(&p, memory));
    REQUIRE(p.location.type == CU_MEM_LOCATION_TYPE_DEVICE && p.location.id == 0);
    int* data = gpu.mapped(memory);
    DRIVER(gpu.release(memory));
    CUmemGenericAllocationHandle again;
    DRIVER(gpu.retain(&again, data));
    DRIVER(gpu.release(again));
    require_all(data, 1);
    add<<<32, 256>>>(data, 10);
    CHECK(cudaDeviceSynchronize());
    other.send('a');
    other.receive();
    require_all(data, 11);  // gone there, still here
    gpu.unmapped(data);
    other.send('d');

    other.receive(&descriptor);
    DRIVER(gpu.import(&memory, descriptor));
    close(descriptor);
    data = gpu.mapped(memory);
    require_all(data, 2);
    gpu.unmapped(data);
    DRIVER(gpu.release(memory));
    other.send('d');
}

static void give_pool(const Socket& other) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool, hidden;
    int descriptor = -1, *data, *more;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMallocFromPoolAsync((void**)&data, count * sizeof(int), pool, 0));
    CHECK(cudaMallocFromPoolAsync((void**)&more, count * sizeof(int), pool, 0));
    put<<<32, 256>>>(data, 3);
    put<<<32, 256>>>(more, 4);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    other.send('p', descriptor);
    close(descriptor);
    cudaMemPoolPtrExportData pointer;
    for (int* p : {data, more}) {
        CHECK(cudaMemPoolExportPointer(&pointer, p));
        other.send(pointer);
    }
    other.receive();
    require_all(data, 13);
    require_all(more, 4);

    properties.handleTypes = cudaMemHandleTypeNone;
    CHECK(cudaMemPoolCreate(&hidden, &properties));
    REQUIRE(cudaMemPoolExportToShareableHandle(&descriptor, hidden, cudaMemHandleTypePosixFileDescriptor, 0) !=
            cudaSuccess);
    CHECK(cudaMemPoolDestroy(hidden));
    cudaGetLastError();
    CHECK(cudaFreeAsync(data, 0));
    CHECK(cudaFreeAsync(more, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolDestroy(pool));
}

static void take_pool(const Socket& other) {
    int descriptor, *data, *more, *none;
    cudaMemPool_t pool;
    other.receive(&descriptor);
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void*)(intptr_t)descriptor, cudaMemHandleTypePosixFileDescriptor,
                                               0));
    close(descriptor);
    cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
    cudaMemAccessFlags flags;
    CHECK(cudaMemPoolGetAccess(&flags, pool, &access.location));
    if (flags != cudaMemAccessFlagsProtReadWrite) CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    for (int** p : {&data, &more}) {
        auto pointer = other.receive<cudaMemPoolPtrExportData>();
        CHECK(cudaMemPoolImportPointer((void**)p, pool, &pointer));
    }
    cudaMemPoolPtrExportData nothing{};
    REQUIRE(cudaMemPoolImportPointer((void**)&none, pool, &nothing) != cudaSuccess);
    REQUIRE(cudaMallocFromPoolAsync((void**)&none, 4096, pool, 0) != cudaSuccess);
    cudaGetLastError();
    require_all(data, 3);
    require_all(more, 4);
    add<<<32, 256>>>(data, 10);
    CHECK(cudaFreeAsync(data, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(more));
    CHECK(cudaMemPoolDestroy(pool));
    other.send('d');
}

int main() {
    int ends[2], status = 0, posix_descriptors = 0, pools = 0;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const pid_t pid = fork();
    // A process that waits for one that has failed must hear of it.
    const Socket other{ends[pid == 0]};
    close(ends[pid != 0]);
    CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
    DRIVER(entry<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute")(
        &posix_descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    if (!posix_descriptors || !(pools & cudaMemHandleTypePosixFileDescriptor)) {
        if (pid == 0) return 77;
        printf("skipped: this device's memory is not shared by descriptors\n");
        return waitpid(pid, &status, 0), 77;
    }
    CHECK(cudaFree(nullptr));
    const Gpu gpu;
    if (pid == 0) {
        take_memory(gpu, other);
        take_pool(other);
        return 0;
    }
    refusals(gpu);
    give_memory(gpu, other);
    give_pool(other);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return verdict(status);
}
