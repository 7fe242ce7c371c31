// SPDX-License-Identifier: Apache-2.0
// pauses: a program to pause. It says "running", waits for a line, and then says "right" if all is as it was.
//   pauses hold MIB          with so much device memory, of a known content
//   pauses waits             whose GPU waits for a word that the program writes behind the line
//   pauses spins             whose kernel ends when the program writes a word behind the line
//   pauses shows             which lets other processes open its memory, and says the handle
//   pauses pools             which has memory of a stream's pool, too
//   pauses draws             which has a generator of cuRAND on the host that has drawn numbers; 77: there is no cuRAND
//   pauses facts [before]    which asks behind the line what priority a stream has, and fills rows of memory, and says
//                            what each call answered; with `before` also in front of the line
//   pauses opens HANDLE      which has opened the memory of that process, beside its own
//   pauses asks              a thread of which launches and synchronizes all the time; behind the line it asks for
//                            memory of the region, and NVML, says "answered", and waits for another line
//   pauses follows MIB [MIB] as hold, also with so much memory of the region, and plays its VM: a line with a path
//                            means that its region is now that file, in which it goes on; a line "clone PATH" means
//                            that a copy of it goes on there, as a clone of a VM does, while it waits for the next line
//   pauses wanders MIB       the same over and over: in each region it launches and copies, and says "right" again,
//                            until an empty line comes
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../../programs/driver.h"

__global__ void fill(unsigned* words, unsigned seed, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
        words[i] = unsigned(i) * 2654435761u + seed;
}
__global__ void compare(const unsigned* words, unsigned seed, size_t count, unsigned* wrong) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
        if (words[i] != unsigned(i) * 2654435761u + seed) atomicAdd(wrong, 1u);
}

__global__ void add_one(unsigned* counted) { ++*counted; }

__global__ void spin(const volatile int* word) {
    while (*word == 0) {}
}

static void say(const char* what) {
    std::printf("%s\n", what);
    std::fflush(stdout);
}
static void wait_for_a_line(const char* what = "running") {
    say(what);
    char line[16];
    if (!std::fgets(line, sizeof line, stdin)) std::exit(3);
}

// What the bridge and its monitor answer, whatever the worker does.
static void ask() {
    constexpr size_t bytes = 96 << 20;
    char* const memory = static_cast<char*>(std::malloc(bytes));
    if (!memory) std::exit(4);
    std::memset(memory, 1, bytes);
    std::free(memory);
    void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    const auto function = [&](const char* name) {
        return reinterpret_cast<int (*)(...)>(nvml ? dlsym(nvml, name) : nullptr);
    };
    void* device = nullptr;
    unsigned long long facts[3];
    const auto init = function("nvmlInit_v2"), handle = function("nvmlDeviceGetHandleByIndex_v2"),
               about = function("nvmlDeviceGetMemoryInfo");
    if (!init || !handle || !about || init() || handle(0u, &device) || about(device, facts)) std::exit(5);
}

static int asks(unsigned* counted) {
    std::atomic<bool> ends{false};
    unsigned launched = 0, n = 0;
    std::thread works([&] {
        for (; !ends; ++launched) {
            add_one<<<1, 1>>>(counted);
            CHECK(cudaDeviceSynchronize());
        }
    });
    wait_for_a_line();
    ask();
    wait_for_a_line("answered");
    ends = true;
    works.join();
    CHECK(cudaMemcpy(&n, counted, sizeof n, cudaMemcpyDeviceToHost));
    std::printf(n == launched && n > 0 ? "right: %u\n" : "%u launched, %u done\n", n, launched);
    return n != launched;
}

static void draw(float* to, size_t count) {
    void* const library = dlopen("libcurand.so.10", RTLD_NOW);
    if (!library) std::exit(77);
    const auto create = reinterpret_cast<int (*)(void**, int)>(dlsym(library, "curandCreateGenerator"));
    const auto uniform = reinterpret_cast<int (*)(void*, float*, size_t)>(dlsym(library, "curandGenerateUniform"));
    constexpr int default_generator = 100;  // CURAND_RNG_PSEUDO_DEFAULT
    void* generator = nullptr;
    if (!create || !uniform || create(&generator, default_generator) || uniform(generator, to, count)) std::exit(8);
    CHECK(cudaDeviceSynchronize());
}

// ---- a program that plays its VM
// Memory of the C library may lie in the region, and must be there only as it was when the VM was suspended: until its
// mappings lead to another file, a program uses its stack and these, and no stdio.
static char maps[1 << 20];
static struct Window {
    void* at;
    size_t bytes;
    off_t offset;
    int access;
} windows[4096];

// The mappings of the region, whose file has this path.
static unsigned windows_of(const char* region) {
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (ssize_t more; n < sizeof maps - 1 && (more = read(file, maps + n, sizeof maps - 1 - n)) > 0;)
        n += size_t(more);
    maps[n] = 0;
    close(file);
    unsigned count = 0;
    for (char *line = maps, *end; (end = std::strchr(line, '\n')) && count < 4096; line = end + 1) {
        *end = 0;
        unsigned long begin, behind, offset;
        char access[5];
        int path = 0;
        if (std::sscanf(line, "%lx-%lx %4s %lx %*s %*s %n", &begin, &behind, access, &offset, &path) < 4 || !path ||
            std::strcmp(line + path, region) || access[3] != 's')
            continue;
        const int rights = (access[0] == 'r' ? PROT_READ : 0) | (access[1] == 'w' ? PROT_WRITE : 0) |
                           (access[2] == 'x' ? PROT_EXEC : 0);
        windows[count++] = {reinterpret_cast<void*>(begin), behind - begin, off_t(offset), rights};
    }
    return count;
}

// Its region is that file from now on, also for the library's descriptor, with which it asks whether a bridge serves
// it.
static void go_on_in(const char* path, const char* region, unsigned count) {
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || !count) _exit(6);
    for (int fd = 3; fd < 1024; ++fd) {
        char link[64], leads[512];
        std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, leads, sizeof leads);
        if (n > 0 && size_t(n) == std::strlen(region) && !std::memcmp(leads, region, size_t(n))) dup2(file, fd);
    }
    for (unsigned i = 0; i < count; ++i)
        if (mmap(windows[i].at, windows[i].bytes, windows[i].access, MAP_SHARED | MAP_FIXED, file, windows[i].offset) ==
            MAP_FAILED)
            _exit(7);
    close(file);
}

// False: it stays where it is.
static bool follow() {
    static char region[512];  // where it is
    if (!*region) std::strncpy(region, std::getenv("BARCUDA_REGION"), sizeof region - 1);
    say("running");
    for (unsigned count = 0;;) {
        char line[512];
        size_t n = 0;
        while (n < sizeof line - 1 && read(0, line + n, 1) == 1 && line[n] != '\n') ++n;
        if (n == 0) return false;
        line[n] = 0;
        count = windows_of(region);
        const bool clones = !std::strncmp(line, "clone ", 6);
        // No handler of fork runs: a VM's programs know nothing of it.
        if (clones && syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) continue;
        const char* const path = clones ? line + 6 : line;
        go_on_in(path, region, count);
        std::memmove(region, path, std::strlen(path) + 1);
        return true;
    }
}

// Copies and launches in each region: numbers of the GPU's to the host, and others from there to the GPU.
static int wander(unsigned* words, unsigned* wrong, size_t count) {
    unsigned *numbers = nullptr, n = 0, round = 0;
    CHECK(cudaHostAlloc((void**)&numbers, count * 4, cudaHostAllocDefault));
    do {
        ++round;
        fill<<<8, 64>>>(words, round, count);
        CHECK(cudaMemcpy(numbers, words, count * 4, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; ++i) n += numbers[i] != unsigned(i) * 2654435761u + round;
        for (size_t i = 0; i < count; ++i) numbers[i] += round;
        CHECK(cudaMemcpyAsync(words, numbers, count * 4, cudaMemcpyHostToDevice));
        compare<<<8, 64>>>(words, 2 * round, count, wrong);
        CHECK(cudaDeviceSynchronize());
        unsigned differ = 1;
        CHECK(cudaMemcpy(&differ, wrong, 4, cudaMemcpyDeviceToHost));
        n += differ;
        say(n == 0 ? "right" : "words are wrong");
    } while (n == 0 && follow());
    return n != 0;
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "hold";
    const size_t bytes = size_t(argc > 2 && (!std::strcmp(mode, "hold") || !std::strcmp(mode, "follows") ||
                                             !std::strcmp(mode, "wanders"))
                                    ? std::atoi(argv[2])
                                    : 16)
                         << 20,
                 count = bytes / 4;
    unsigned *words = nullptr, *wrong = nullptr;
    CHECK(cudaMalloc(&words, bytes));
    CHECK(cudaMalloc(&wrong, 4));
    CHECK(cudaMemset(wrong, 0, 4));
    if (!std::strcmp(mode, "asks")) return asks(wrong);
    if (!std::strcmp(mode, "wanders")) return wander(words, wrong, count);
    fill<<<8, 64>>>(words, 7, count);
    CHECK(cudaDeviceSynchronize());
    unsigned* pinned = nullptr;
    const size_t pinned_count = size_t(argc > 3 && !std::strcmp(mode, "follows") ? std::atoi(argv[3]) : 0) << 18;
    if (pinned_count) {
        CHECK(cudaHostAlloc((void**)&pinned, pinned_count * 4, cudaHostAllocMapped));
        fill<<<8, 64>>>(pinned, 11, pinned_count);
        CHECK(cudaDeviceSynchronize());
    }
    if (!std::strcmp(mode, "waits")) {
        cudaStream_t waits, writes;
        CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&writes, cudaStreamNonBlocking));
        const auto wait_value = entry<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
        const auto write_value = entry<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32");
        const CUdeviceptr word = reinterpret_cast<CUdeviceptr>(wrong);
        DRIVER(wait_value(waits, word, 5, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cudaMemsetAsync(words, 0, 4, writes));
        CHECK(cudaStreamSynchronize(writes));  // the GPU has the wait
        wait_for_a_line();
        DRIVER(write_value(writes, word, 5, 0));
        CHECK(cudaDeviceSynchronize());
        std::printf("right\n");
        return 0;
    }
    if (!std::strcmp(mode, "spins")) {
        volatile int* word = nullptr;
        CHECK(cudaHostAlloc((void**)&word, sizeof *word, cudaHostAllocMapped));
        *word = 0;
        spin<<<1, 1>>>(word);
        wait_for_a_line();
        *word = 1;
        CHECK(cudaDeviceSynchronize());
        std::printf("right\n");
        return 0;
    }
    if (!std::strcmp(mode, "shows")) {
        cudaIpcMemHandle_t handle;
        CHECK(cudaIpcGetMemHandle(&handle, words));
        std::printf("handle ");
        for (const char c : handle.reserved) std::printf("%02x", static_cast<unsigned char>(c));
        std::printf("\n");
    }
    if (!std::strcmp(mode, "pools")) {
        void* pooled = nullptr;
        CHECK(cudaMallocAsync(&pooled, 1 << 20, nullptr));
        CHECK(cudaStreamSynchronize(nullptr));
    }
    if (!std::strcmp(mode, "draws")) {
        float* drawn = nullptr;
        CHECK(cudaMalloc(&drawn, 4096));
        draw(drawn, 1024);
    }
    cudaStream_t stream = nullptr;
    const auto facts = [&] {
        int priority = 0;
        const char* const asked = cudaGetErrorName(cudaStreamGetPriority(stream, &priority));
        const char* const filled = cudaGetErrorName(cudaMemset2DAsync(wrong, 1, 0, 1, 4, stream));
        std::printf("priority %s, rows %s, behind them %s\n", asked, filled,
                    cudaGetErrorName(cudaStreamSynchronize(stream)));
        cudaGetLastError();
    };
    if (!std::strcmp(mode, "facts")) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        if (argc > 2) facts();
    }
    if (!std::strcmp(mode, "opens")) {
        cudaIpcMemHandle_t handle;
        for (size_t i = 0; i < sizeof handle.reserved; ++i) {
            unsigned byte = 0;
            if (std::sscanf(argv[2] + 2 * i, "%2x", &byte) != 1) std::exit(2);
            handle.reserved[i] = static_cast<char>(byte);
        }
        void* others = nullptr;
        CHECK(cudaIpcOpenMemHandle(&others, handle, cudaIpcMemLazyEnablePeerAccess));
    }
    if (!std::strcmp(mode, "follows")) follow();
    else wait_for_a_line();
    if (stream) facts();
    compare<<<8, 64>>>(words, 7, count, wrong);
    if (pinned) compare<<<8, 64>>>(pinned, 11, pinned_count, wrong);
    if (!std::strcmp(mode, "follows")) {  // its memory is its own
        fill<<<8, 64>>>(words, unsigned(getpid()), count);
        compare<<<8, 64>>>(words, unsigned(getpid()), count, wrong);
    }
    unsigned n = 1;
    CHECK(cudaMemcpy(&n, wrong, 4, cudaMemcpyDeviceToHost));
    std::printf(n == 0 ? "right\n" : "%u words are wrong\n", n);
    return n != 0;
}
