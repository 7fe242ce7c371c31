// SPDX-License-Identifier: Apache-2.0
// gives.cu: for test_descriptors.py. `give NAME`: an int in memory of cuMemCreate, as a descriptor for a process that
// connects to the UNIX socket of this (abstract) name, until it gets a line: then it closes the descriptor. It has
// released the memory before. `take NAME`: what it is to another process. `hold NAME`: maps it, and tells what it is,
// and what the descriptor is, when it gets a line. `forge NAME`: what descriptors of its own making are.
#include <cuda.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "../../programs/driver.h"

constexpr auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr size_t bytes = 2 << 20;

static sockaddr_un place(const char* name, socklen_t& length) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    strncpy(at.sun_path + 1, name, sizeof at.sun_path - 2);
    length = (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + strlen(name));
    return at;
}

static void show(const char* what, CUresult result, int value) {
    if (result == CUDA_SUCCESS) printf("%s %d\n", what, value);
    else printf("%s refused: %d\n", what, (int)result);
    fflush(stdout);
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle memory) {
    CUdeviceptr at;
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&at, bytes, 0, 0, 0));
    DRIVER(entry<decltype(&cuMemMap)>("cuMemMap")(at, bytes, 0, memory, 0));
    DRIVER(entry<decltype(&cuMemSetAccess)>("cuMemSetAccess")(at, bytes, &access, 1));
    return at;
}

static int give(const char* name) {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    p.requestedHandleTypes = posix;
    CUmemGenericAllocationHandle memory;
    int descriptor = -1, value = 42, times = 0;
    const auto create = entry<decltype(&cuMemCreate)>("cuMemCreate");
    const auto release = entry<decltype(&cuMemRelease)>("cuMemRelease");
    DRIVER(create(&memory, bytes, &p, 0));
    const CUdeviceptr at = mapped(memory);
    CHECK(cudaMemcpy((void*)at, &value, sizeof value, cudaMemcpyHostToDevice));
    DRIVER(
        entry<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle")(&descriptor, memory, posix, 0));
    DRIVER(entry<decltype(&cuMemUnmap)>("cuMemUnmap")(at, bytes));
    DRIVER(release(memory));

    socklen_t length;
    const sockaddr_un here = place(name, length);
    const int door = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(bind(door, (const sockaddr*)&here, length) == 0 && listen(door, 8) == 0);
    printf("running\n"), fflush(stdout);
    std::thread([=] {
        for (;;) {
            const int one = accept(door, nullptr, nullptr);
            char byte = 'd';
            iovec data{&byte, 1};
            alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
            msghdr message{};
            message.msg_iov = &data, message.msg_iovlen = 1;
            message.msg_control = room, message.msg_controllen = sizeof room;
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
            sendmsg(one, &message, MSG_NOSIGNAL);
            close(one);
        }
    }).detach();
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        if (descriptor >= 0) close(std::exchange(descriptor, -1));
        DRIVER(create(&memory, bytes, &p, 0));
        DRIVER(release(memory));
        printf("let go, %d\n", ++times), fflush(stdout);
    }
    for (;;) pause();
}

static int receive(const char* name) {
    socklen_t length;
    const sockaddr_un there = place(name, length);
    const int to = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(connect(to, (const sockaddr*)&there, length) == 0);
    char byte;
    iovec data{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1;
    message.msg_control = room, message.msg_controllen = sizeof room;
    REQUIRE(recvmsg(to, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    close(to);
    return descriptor;
}

static CUresult import(CUmemGenericAllocationHandle* memory, int descriptor) {
    static const auto from = entry<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
    return from(memory, (void*)(intptr_t)descriptor, posix);
}
static int read_int(CUdeviceptr at) {
    int value = 0;
    CHECK(cudaMemcpy(&value, (void*)at, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

// A socket as Barcuda's descriptors are, with a byte of what lies in them changed, or less in it, or nothing.
static int forged(const char* text, ssize_t length, int change) {
    int ends[2];
    char copy[256];
    memcpy(copy, text, (size_t)length);
    if (change >= 0) copy[change] ^= 1;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    if (length) REQUIRE(send(ends[0], copy, (size_t)length, 0) == length);
    return ends[1];
}
static int forge(int descriptor) {
    CUmemGenericAllocationHandle memory;
    char text[256];
    const ssize_t length = recv(descriptor, text, sizeof text, MSG_PEEK);
    REQUIRE(length > 16 && length < (ssize_t)sizeof text);
    for (int at = 0; at < length; ++at) REQUIRE(import(&memory, forged(text, length, at)) != CUDA_SUCCESS);
    for (ssize_t part : {ssize_t{0}, ssize_t{1}, length - 1, length + 1})
        REQUIRE(import(&memory, forged(text, part, -1)) != CUDA_SUCCESS);
    show("the same", import(&memory, forged(text, length, -1)), 1);  // the token is enough
    printf("forged ones refused\n");
    return 0;
}

int main(int argc, char** argv) {
    REQUIRE(argc == 3);
    CHECK(cudaFree(nullptr));
    if (!strcmp(argv[1], "give")) return give(argv[2]);
    const int descriptor = receive(argv[2]);
    if (!strcmp(argv[1], "forge")) return forge(descriptor);
    CUmemGenericAllocationHandle memory;
    const CUresult got = import(&memory, descriptor);
    const CUdeviceptr at = got == CUDA_SUCCESS ? mapped(memory) : 0;
    if (!strcmp(argv[1], "take")) return show("memory", got, at ? read_int(at) : 0), 0;
    REQUIRE(at);
    printf("running\n"), fflush(stdout);
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        show("memory", got, read_int(at));
        show("descriptor", import(&memory, descriptor), 1);
    }
    return 0;
}
