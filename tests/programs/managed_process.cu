// SPDX-License-Identifier: Apache-2.0
// managed_process: managed memory and the rest of its process: parameters of calls in such memory, threads, system
// calls on it, a handler of SIGSEGV, a forked child, and variables.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "managed.h"

__managed__ int number = 3;
__managed__ int table[20000];
__global__ void work_on_variables(int by) {
    if (threadIdx.x == 0) number += by;
    for (int i = threadIdx.x; i < 20000; i += blockDim.x) table[i] = table[i] * 2 + by;
}

// What a call reads and writes lies in managed memory itself.
static void parameters() {
    struct Inside {
        int *p, by;
        size_t n;
        void* list[3];
        cudaStream_t stream;
        cudaEvent_t event;
        cudaMemcpy3DParms box;
        int values[1000];
    };
    Inside* m = managed<Inside>(1);
    memset(m, 0, sizeof *m);
    for (int round = 0; round < 3; ++round) {
        m->p = m->values, m->n = 1000, m->by = round;
        m->list[0] = &m->p, m->list[1] = &m->n, m->list[2] = &m->by;
        CHECK(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&m->event));
        const cudaStream_t s = m->stream;
        launch(m->values, 1000, 1, s);  // on the device's side
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaLaunchKernel(reinterpret_cast<void*>(add), dim3(1), dim3(32), m->list, 0, s));
        CHECK(cudaStreamSynchronize(s));
        // Packed by the program.
        cudaFunction_t function;
        CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<void*>(add)));
        size_t bytes = 20;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, m, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
        struct Packed {
            int* p;
            size_t n;
            int by;
        }* packed = reinterpret_cast<Packed*>(m);
        *packed = {m->values, 1000, 10};
        DRIVER(entry<decltype(&cuLaunchKernel)>("cuLaunchKernel", 4000)(reinterpret_cast<CUfunction>(function), 1, 1, 1,
                                                                        32, 1, 1, 0, s, nullptr, extra));
        CHECK(cudaStreamSynchronize(s));
        REQUIRE(m->values[999] == 11 * (round + 1) + round * (round + 1) / 2);
        m->box = {};
        m->box.srcPtr = make_cudaPitchedPtr(m->values, 400, 400, 1);
        m->box.dstPtr = make_cudaPitchedPtr(m->values + 500, 400, 400, 1);
        m->box.extent = make_cudaExtent(40, 1, 1);
        m->box.kind = cudaMemcpyDefault;
        CHECK(cudaMemcpy3D(&m->box));
        CHECK(cudaEventDestroy(m->event));
        CHECK(cudaStreamDestroy(m->stream));
        REQUIRE(m->values[509] == m->values[9]);
    }
    CHECK(cudaFree(m));
}

// Threads that touch the same memory at once, after one launch; then each with a stream and memory of its own.
static void threads() {
    const size_t n = 1 << 20;
    int* p = managed<int>(n);
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaMemset(p, 0, n * sizeof *p));
        launch(p, n, 3);
        done();
        std::vector<std::thread> all;
        std::vector<long> wrong(4, 0);
        for (int t = 0; t < 4; ++t)
            all.emplace_back([&, t] {
                for (size_t i = 0; i < n; ++i) wrong[t] += p[(i + t * 1000) % n] < 3;
                for (size_t i = t; i < n; i += 4) ++p[i];
            });
        for (auto& t : all) t.join();
        REQUIRE(wrong == std::vector<long>(4, 0) && all_are(p, n, 4));
    }
    CHECK(cudaFree(p));
    std::vector<std::thread> all;
    std::vector<long> right(4, 0);
    for (int t = 0; t < 4; ++t)
        all.emplace_back([&, t] {
            cudaStream_t s = new_stream();
            const size_t count = 50000 + 1000 * t;
            int* mine = managed<int>(count);
            CHECK(cudaStreamAttachMemAsync(s, mine));
            CHECK(cudaStreamSynchronize(s));
            for (size_t i = 0; i < count; ++i) mine[i] = t;
            for (int round = 1; round <= 20; ++round) {
                launch(mine, count, 1, s);
                CHECK(cudaStreamSynchronize(s));
                right[t] += all_are(mine, count, t + 2 * round - 1);
                for (size_t i = 0; i < count; ++i) ++mine[i];
            }
            CHECK(cudaFree(mine));
            CHECK(cudaStreamDestroy(s));
        });
    for (auto& t : all) t.join();
    REQUIRE(right == std::vector<long>(4, 20));
}

static void system_calls() {
    const size_t n = 1 << 20;
    char *p = managed<char>(n), name[] = "/tmp/managed.XXXXXX";
    const int file = mkstemp(name);
    REQUIRE(file >= 0 && unlink(name) == 0);
    const auto refill = [&](int value) {
        CHECK(cudaMemset(p, value, n));
        done();
    };
    refill(1);
    REQUIRE(write(file, p, n) == (ssize_t)n);
    refill(2);
    REQUIRE(pwrite(file, p, n / 2, n / 2) == (ssize_t)(n / 2));
    refill(3);
    REQUIRE(lseek(file, 0, SEEK_SET) == 0 && read(file, p, n) == (ssize_t)n);
    REQUIRE(p[0] == 1 && p[n / 2 - 1] == 1 && p[n / 2] == 2 && p[n - 1] == 2);
    add<<<1, 1>>>(reinterpret_cast<int*>(p), 1, 0x01010101);  // and the device finds what was read
    done();
    REQUIRE(p[0] == 2 && p[3] == 2 && p[4] == 1);
    refill(4);
    iovec parts[2] = {{p, 1000}, {p + n - 1000, 1000}};
    REQUIRE(pwritev(file, parts, 2, 0) == 2000);
    refill(5);
    REQUIRE(preadv(file, parts, 2, 0) == 2000 && p[999] == 4 && p[1000] == 5 && p[n - 1000] == 4);
    refill(6);
    FILE* stream = fdopen(dup(file), "w+");
    REQUIRE(stream && fseek(stream, 0, SEEK_SET) == 0 && fwrite(p, 1, n, stream) == n && fflush(stream) == 0);
    refill(7);
    rewind(stream);
    REQUIRE(fread(p, 1, n, stream) == n && p[0] == 6 && p[n - 1] == 6);
    fclose(stream);
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    refill(8);
    REQUIRE(send(pair[0], p, 4000, 0) == 4000);
    refill(9);
    REQUIRE(recv(pair[1], p + 70000, 4000, MSG_WAITALL) == 4000 && p[70000] == 8 && p[69999] == 9);
    for (int fd : {pair[0], pair[1], file}) close(fd);
    CHECK(cudaFree(p));
}

// The program's own handler gets its own faults, with the mask, the stack and the flags that it asked for.
static sigjmp_buf back;
static volatile sig_atomic_t seen;
static void* volatile where;
static void on_fault(int, siginfo_t* info, void*) {
    ++seen;
    where = info->si_addr;
    siglongjmp(back, 1);
}
static char* trap;
static void open_trap(int, siginfo_t* info, void*) {
    ++seen;
    where = info->si_addr;
    mprotect(trap, 4096, PROT_READ | PROT_WRITE);
}
static void handlers() {
    const size_t n = 1 << 20;
    int* p = managed<int>(n);
    trap = static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction own {
    }, before{}, now{};
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    static char room[64 << 10];
    const stack_t stack{room, 0, sizeof room};
    REQUIRE(sigaltstack(&stack, nullptr) == 0);
    REQUIRE(sigaction(SIGSEGV, &own, &before) == 0);
    REQUIRE(sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_sigaction == on_fault && now.sa_flags & SA_ONSTACK);
    for (int round = 1; round <= 3; ++round) {
        CHECK(cudaMemset(p, round, n * sizeof *p));
        done();
        REQUIRE(p[5] == 0x01010101 * round);  // not the program's to see
        if (!sigsetjmp(back, 1)) *(volatile char*)(trap + round) = 1;
        REQUIRE(seen == round && where == trap + round);
        p[7] = 1;
    }
    own.sa_sigaction = open_trap;
    own.sa_flags = SA_SIGINFO;
    REQUIRE(sigaction(SIGSEGV, &own, nullptr) == 0);
    launch(p, n, 1);
    done();
    *(volatile char*)(trap + 9) = (char)p[0];
    REQUIRE(seen == 4 && where == trap + 9 && trap[9] == 4 && p[7] == 2);
    // Blocked signals, and a mask that a thread begins with.
    sigset_t all, old;
    sigfillset(&all);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    launch(p, n, 1);
    done();
    REQUIRE(p[0] == 0x03030305);
    std::thread([&] {
        REQUIRE(p[n - 1] == 0x03030305);
        p[n - 1] = 0;
    }).join();
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, nullptr) == 0);
    REQUIRE(signal(SIGSEGV, SIG_DFL) != SIG_DFL && signal(SIGSEGV, SIG_DFL) == SIG_DFL);
    REQUIRE(p[n - 1] == 0);
    CHECK(cudaFree(p));
    // A fault without a handler still ends the process.
    const pid_t child = fork();
    if (child == 0) {
        *(volatile int*)nullptr = 1;
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    REQUIRE(sigaction(SIGSEGV, &before, nullptr) == 0);
    munmap(trap, 4096);
}

// A child has no CUDA. Its parent keeps its memory and goes on.
static void forks() {
    const size_t n = 1 << 20;
    int* p = managed<int>(n);
    for (size_t i = 0; i < n; ++i) p[i] = 1;
    launch(p, n, 1);
    done();
    p[3] = 5;
    for (int round = 0; round < 3; ++round) {
        const pid_t child = fork();
        if (child == 0) _exit(7);
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        launch(p, n, 1);
        done();
        REQUIRE(p[3] == 6 + round && p[4] == 3 + round && p[n - 1] == 3 + round);
    }
    CHECK(cudaFree(p));
}

static void variables() {
    for (int i = 0; i < 20000; ++i) table[i] = i;
    for (int round = 1; round <= 3; ++round) {
        work_on_variables<<<1, 128>>>(round);
        done();
        REQUIRE(number == 3 + round * (round + 1) / 2);
    }
    for (int i = 0; i < 20000; ++i) REQUIRE(table[i] == 8 * i + 4 * 1 + 2 * 2 + 3);
    void *there = nullptr, *here = &number;
    CHECK(cudaGetSymbolAddress(&there, number));
    REQUIRE(there == here);
    const int nine = 9;
    CHECK(cudaMemcpyToSymbol(number, &nine, sizeof nine));
    REQUIRE(number == 9);
    add<<<1, 1>>>(&number, 1, 1);
    done();
    REQUIRE(number == 10);
    struct {
        int *a, *b;
    } inside{&number, table};
    auto* kept = managed<decltype(inside)>(1);
    *kept = inside;  // the address in a structure is the variable's as well
    launch(kept->a, 1, 5);
    launch(kept->b + 7, 1, 5);
    const int seven = table[8] - table[6];
    done();
    REQUIRE(number == 15 && table[8] - table[6] == seven);
    CHECK(cudaFree(kept));
}

int main() {
    parameters();
    threads();
    system_calls();
    handlers();
    forks();
    variables();
    printf("managed memory, in its process\nPASSED\n");
    return 0;
}
