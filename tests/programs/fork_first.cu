// SPDX-License-Identifier: Apache-2.0
// fork_first.cu: a program that has allocated memory but has not used CUDA forks, and its children use it, each for
// itself: with what their parent allocated, which is theirs to read, write, copy, register and free, and with memory of
// their own. The parent may use CUDA later, or end before them. Only a child of a process that has initialized CUDA
// gets CUDA's error.
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "check.h"

extern char** environ;

constexpr int n = 1 << 18;  // ints: 1 MiB
constexpr size_t bytes = n * sizeof(int);
constexpr unsigned patience = 240;  // seconds: a child that hangs ends

__global__ void add(int* p, int what) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += what;
}

static int* filled(int with) {
    auto* p = static_cast<int*>(malloc(bytes));
    REQUIRE(p);
    for (int i = 0; i < n; i++) p[i] = with + i;
    return p;
}
static bool holds(const int* p, int first) {
    for (int i = 0; i < n; i++)
        if (p[i] != first + i) return false;
    return true;
}

// To the device, through a kernel, and back.
static bool round_trip(const int* from, int* to, int first) {
    int* d;
    CHECK(cudaMalloc(&d, bytes));
    CHECK(cudaMemcpy(d, from, bytes, cudaMemcpyHostToDevice));
    add<<<n / 256, 256>>>(d, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(to, d, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));
    return holds(to, first + 5);
}

// The same with memory that has several kinds: what was inherited, what is allocated now, what is pinned.
static void use_cuda(int* kept, int first) {
    REQUIRE(round_trip(kept, kept, first));
    int* const own = filled(0);
    REQUIRE(round_trip(own, own, 0));
    REQUIRE(round_trip(kept, own, first + 5));
    int *pinned, *mapped;
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    memcpy(pinned, kept, bytes);
    add<<<n / 256, 256>>>(mapped, 1);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(holds(pinned, first + 6) && holds(kept, first + 5));

    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, kept));
    REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
    CHECK(cudaHostRegister(kept, bytes, cudaHostRegisterDefault));
    cudaStream_t stream;
    int* d;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&d, bytes));
    CHECK(cudaMemcpyAsync(d, kept, bytes, cudaMemcpyHostToDevice, stream));
    add<<<n / 256, 256, 0, stream>>>(d, 1);
    CHECK(cudaMemcpyAsync(kept, d, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(holds(kept, first + 6));
    CHECK(cudaHostUnregister(kept));
    CHECK(cudaMemcpy2D(kept, bytes / 4, pinned, bytes / 4, bytes / 4, 4, cudaMemcpyDefault));
    CHECK(cudaMemcpy2D(d, bytes / 4, kept, bytes / 4, bytes / 4, 4, cudaMemcpyDefault));
    CHECK(cudaMemcpy2D(own, bytes / 4, d, bytes / 4, bytes / 4, 4, cudaMemcpyDefault));
    REQUIRE(holds(own, first + 6));
    CHECK(cudaFree(d));
    CHECK(cudaStreamDestroy(stream));
    auto* longer = static_cast<int*>(realloc(kept, 2 * bytes));
    REQUIRE(longer && holds(longer, first + 6));
    REQUIRE(round_trip(longer, longer + n, first + 6));
    free(longer), free(own);
    CHECK(cudaFreeHost(pinned));
}

template <class F> pid_t in_child(F body) {
    fflush(stdout);
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid) return pid;
    alarm(patience);
    body();
    fflush(stdout);
    _exit(0);
}
static void join(pid_t pid, const char* what) {
    int status = -1;
    if (waitpid(pid, &status, 0) == pid && status == 0) return;
    printf("FAILED: %s: status %x\n", what, status);
    exit(1);
}

struct Gate {  // open once its owner, or the owner's end, has closed it
    int ends[2];
    Gate() { REQUIRE(!pipe(ends)); }
    void open() { close(ends[1]), ends[1] = -1; }
    void wait() {
        open();  // this process's own
        char byte;
        REQUIRE(read(ends[0], &byte, 1) == 0);
    }
};

static void gets_an_error() {
    void* p;
    REQUIRE(cudaMalloc(&p, 100) == cudaErrorInitializationError);
}

// A parent that ends: what it had is granted to others, while its child still has it.
static int leave(const char* result) {
    std::vector<int*> kept;
    for (int i = 0; i < 20; i++) kept.push_back(filled(i));
    Gate end;
    const int report = atoi(result);
    in_child([&] {
        end.wait();
        std::vector<int*> more;
        std::vector<int*> pinned;
        for (int i = 0; i < 20; i++) {
            int* p;
            CHECK(cudaMallocHost(&p, bytes));
            memset(p, 0xff, bytes), pinned.push_back(p);
            more.push_back(filled(1000 + i));
            REQUIRE(round_trip(more.back(), more.back(), 1000 + i));
        }
        for (int i = 0; i < 20; i++) {
            REQUIRE(holds(kept[i], i) && holds(more[i], 1005 + i) && pinned[i][0] == -1 && pinned[i][n - 1] == -1);
            CHECK(cudaFreeHost(pinned[i]));
        }
        for (int i = 0; i < 20; i++) REQUIRE(round_trip(kept[i], kept[i], i));
        REQUIRE(write(report, "y", 1) == 1);
    });
    _exit(0);
}

int main(int count, char** arguments) {
    if (count > 2 && !strcmp(arguments[1], "leave")) return leave(arguments[2]);
    int* const kept = filled(100);

    // Two at once, after their parent has written to what they have.
    Gate written;
    pid_t children[2];
    for (pid_t& child : children)
        child = in_child([&] {
            written.wait();
            use_cuda(kept, 100);
        });
    for (int i = 0; i < n; i++) kept[i] = 7 + i;
    written.open();
    for (pid_t child : children) join(child, "a child");
    REQUIRE(holds(kept, 7));

    // Forks of forks. What has used CUDA has no children that can.
    join(in_child([&] {
             kept[0] = 8;
             join(in_child([&] { kept[0]--, use_cuda(kept, 7); }), "a child's child");
             kept[0] = 7;
             int* const own = filled(50);
             use_cuda(kept, 7);
             join(in_child([&] {
                      REQUIRE(holds(own, 50));
                      gets_an_error();
                      join(in_child(gets_an_error), "a child of such a child");
                  }),
                  "a child of one that has used CUDA");
             REQUIRE(round_trip(own, own, 50));
         }),
         "a child with children");

    // Beside a child that goes on, the parent begins.
    Gate used;
    const pid_t beside = in_child([&] {
        used.wait();
        use_cuda(kept, 7);
    });
    join(in_child([] { REQUIRE(system("true") == 0); }), "a child that runs a program");
    use_cuda(filled(7), 7);
    used.open();
    REQUIRE(round_trip(kept, kept, 7));
    join(beside, "a child from before its parent used CUDA");
    join(in_child(gets_an_error), "a child from after");

    int ends[2];
    REQUIRE(!pipe(ends));
    const std::string end = std::to_string(ends[1]);
    char leave[] = "leave";
    char* const again[] = {arguments[0], leave, const_cast<char*>(end.c_str()), nullptr};
    pid_t pid;
    REQUIRE(!posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, again, environ));
    close(ends[1]);
    join(pid, "a parent that ends");
    char byte = 0;
    REQUIRE(read(ends[0], &byte, 1) == 1 && byte == 'y');
    return verdict(0);
}
