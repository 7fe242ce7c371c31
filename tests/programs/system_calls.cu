// SPDX-License-Identifier: Apache-2.0
// system_calls.cu: what the kernel does with buffers that the GPU copies from and to: files (also past the page cache,
// and asynchronously), sockets, pipes, another process's eyes, futexes. Each way brings the same bytes into a buffer,
// and the GPU must then see them.
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const size_t bytes = 1 << 20;
static const ssize_t whole = 1 << 20;
static unsigned char *from, *to, *device, *expected;

static void fresh(unsigned seed) {
    for (size_t i = 0; i < bytes; i++) expected[i] = from[i] = (unsigned char)((i * 2654435761u + seed) >> 11);
    memset(to, 0, bytes);
}

// What arrived in `to` goes to the GPU and back into `from`.
static void arrived(const char* how) {
    memset(from, 0, bytes);
    CHECK(cudaMemcpy(device, to, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(from, device, bytes, cudaMemcpyDeviceToHost));
    if (memcmp(to, expected, bytes) || memcmp(from, expected, bytes)) {
        printf("FAILED: %s brought other bytes\n", how);
        exit(1);
    }
    printf("  %s\n", how);
}

static int file(int flags) {
    for (const char* where : {"/var/tmp", "/tmp", "."}) {
        char path[64];
        snprintf(path, sizeof path, "%s/system_calls_%d", where, (int)getpid());
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR | flags, 0600);  // not every file system has O_TMPFILE
        if (fd >= 0) return unlink(path), fd;
        unlink(path);  // created, and only then refused for O_DIRECT
    }
    return -1;
}

static void files() {
    int fd = file(0);
    REQUIRE(fd >= 0);
    fresh(1);
    REQUIRE(pwrite(fd, from, bytes, 0) == whole && pread(fd, to, bytes, 0) == whole);
    arrived("write and read");
    int direct = file(O_DIRECT);
    fresh(2);
    if (direct >= 0 && pwrite(direct, from, bytes, 0) == whole) {
        REQUIRE(pread(direct, to, bytes, 0) == whole);
        arrived("O_DIRECT");
    } else {
        printf("  no file system with O_DIRECT here\n");
    }
    fresh(3);
    struct iovec parts[2] = {{from, 1000}, {from + 1000, bytes - 1000}},
                 into[2] = {{to, 77777}, {to + 77777, bytes - 77777}};
    REQUIRE(pwritev(fd, parts, 2, 0) == whole && preadv(fd, into, 2, 0) == whole);
    arrived("writev and readv");
    close(fd), close(direct);
}

static void* send_all(void* argument) {
    const int* ends = (const int*)argument;
    off_t at = 0;
    while (at < whole && sendfile(ends[0], ends[1], &at, bytes - at) > 0) {}
    return nullptr;
}

static void sockets_and_pipes() {
    int ends[2], fd = file(0);
    fresh(4);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pwrite(fd, from, bytes, 0) == whole);
    int arguments[2] = {ends[0], fd};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, send_all, arguments) == 0);
    REQUIRE(recv(ends[1], to, bytes, MSG_WAITALL) == whole);
    pthread_join(thread, nullptr);
    arrived("sendfile into a socket, recv from it");
    close(ends[0]), close(ends[1]), close(fd);

    fresh(5);
    REQUIRE(pipe(ends) == 0);
    for (size_t at = 0; at < bytes;) {
        struct iovec part = {from + at, 16384};
        ssize_t in = vmsplice(ends[1], &part, 1, 0);
        REQUIRE(in > 0);
        for (ssize_t got = 0; got < in;) {
            ssize_t n = read(ends[0], to + at + got, in - got);
            REQUIRE(n > 0);
            got += n;
        }
        at += in;
    }
    arrived("vmsplice through a pipe");
    close(ends[0]), close(ends[1]);

    fresh(6);
    struct iovec local = {to, bytes}, remote = {from, bytes};
    REQUIRE(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == whole);
    arrived("process_vm_readv");
}

// io_uring by its system calls: one write of `from`, one read into `to`.
struct Ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe* entries;
    struct io_uring_cqe* completions;
};
static bool open_ring(Ring* r) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    r->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (r->fd < 0) return false;
    const int rw = PROT_READ | PROT_WRITE;
    char* sq = (char*)mmap(nullptr, p.sq_off.array + p.sq_entries * 4, rw, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
    char* cq = (char*)mmap(nullptr, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), rw, MAP_SHARED, r->fd,
                           IORING_OFF_CQ_RING);
    r->entries = (struct io_uring_sqe*)mmap(nullptr, p.sq_entries * sizeof(struct io_uring_sqe), rw, MAP_SHARED, r->fd,
                                            IORING_OFF_SQES);
    REQUIRE(sq != MAP_FAILED && cq != MAP_FAILED && r->entries != MAP_FAILED);
    r->sq_tail = (unsigned*)(sq + p.sq_off.tail), r->sq_mask = (unsigned*)(sq + p.sq_off.ring_mask),
    r->sq_array = (unsigned*)(sq + p.sq_off.array);
    r->cq_head = (unsigned*)(cq + p.cq_off.head), r->cq_tail = (unsigned*)(cq + p.cq_off.tail),
    r->cq_mask = (unsigned*)(cq + p.cq_off.ring_mask);
    r->completions = (struct io_uring_cqe*)(cq + p.cq_off.cqes);
    return true;
}
static int submit(Ring* r, int op, int fd, void* p) {
    const unsigned tail = *r->sq_tail, index = tail & *r->sq_mask;
    struct io_uring_sqe* e = &r->entries[index];
    memset(e, 0, sizeof *e);
    e->opcode = (__u8)op, e->fd = fd, e->addr = (__u64)p, e->len = (__u32)bytes;
    r->sq_array[index] = index;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
    REQUIRE(syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) == 1);
    const unsigned head = *r->cq_head;
    REQUIRE(__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) != head);
    const int result = r->completions[head & *r->cq_mask].res;
    __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}
static void ring() {
    Ring r;
    if (!open_ring(&r)) return (void)printf("  no io_uring here\n");
    const int fd = file(0);
    fresh(7);
    REQUIRE(submit(&r, IORING_OP_WRITE, fd, from) == whole && submit(&r, IORING_OP_READ, fd, to) == whole);
    arrived("io_uring");
    // Buffers that stay pinned for it. The kernel takes them of anonymous and shared memory, not of a device's.
    struct iovec both[2] = {{from, bytes}, {to, bytes}};
    fresh(8);
    if (syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, both, 2) == 0) {
        REQUIRE(submit(&r, IORING_OP_WRITE_FIXED, fd, from) == whole);
        REQUIRE(pread(fd, to, bytes, 0) == whole);
        arrived("io_uring with registered buffers");
    } else {
        printf("  no registered buffers of io_uring in this memory\n");
    }
    close(fd), close(r.fd);
}

static void* wake(void* word) {
    usleep(1000);
    __atomic_store_n((int*)word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);  // as between processes: by what the address maps
    return nullptr;
}
static void futexes() {
    int* word = (int*)to;
    *word = 0;
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, wake, word) == 0);
    while (!__atomic_load_n(word, __ATOMIC_SEQ_CST)) syscall(SYS_futex, word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    pthread_join(thread, nullptr);

    pthread_mutex_t* mutex = (pthread_mutex_t*)to;  // a lock that lies in the buffer
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    REQUIRE(pthread_mutex_init(mutex, &attributes) == 0);
    REQUIRE(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0 && pthread_mutex_destroy(mutex) == 0);
    printf("  futexes\n");
}

static void everything() {
    files();
    sockets_and_pipes();
    ring();
    futexes();
}

int main() {
    CHECK(cudaMalloc(&device, bytes));
    expected = (unsigned char*)malloc(bytes);
    CHECK(cudaHostAlloc(&from, bytes, 0));
    CHECK(cudaHostAlloc(&to, bytes, 0));
    printf("pinned memory:\n");
    everything();
    CHECK(cudaFreeHost(from));
    CHECK(cudaFreeHost(to));
    REQUIRE(posix_memalign((void**)&from, 4096, bytes) == 0 && posix_memalign((void**)&to, 4096, bytes) == 0);
    printf("malloc:\n");
    everything();
    return verdict(0);
}
