// SPDX-License-Identifier: Apache-2.0
#include "shm-device/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace barcuda::trace {

bool on = false;

namespace {

struct Event {
    std::string_view name;
    std::int64_t start, end;
    pid_t thread;
};

constexpr std::size_t kHeld = 4096;  // events before they are written: 160 KiB, and a write every few milliseconds
constexpr long kPeriodNs = 500'000;  // a worker is killed when its client is gone: what it did last must be out by then

Event held[kHeld];  // no memory is allocated here: the guest's malloc may be under way
std::size_t count = 0;
char noted[65536];  // whole lines
std::size_t noted_bytes = 0;
char path[4096];  // opened for each write: a program may close every descriptor that it does not know
bool named = false;
pid_t owner = 0;  // a forked child inherits what is held back; it is not the child's to write
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct Locked {
    Locked() { pthread_mutex_lock(&lock); }
    ~Locked() { pthread_mutex_unlock(&lock); }
};

bool is_worker() { return !strcmp(program_invocation_short_name, "barcuda-bridge"); }

// The file, for the next lines, locked until it is closed. The first process begins it. -1: the trace ends here.
int open_file() {
    const int fd = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    struct stat now;
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &now) != 0 || (now.st_size == 0 && ::write(fd, "[\n", 2) != 2)) {
        fprintf(stderr, "barcuda: BARCUDA_TRACE=%s: %s\n", path, strerror(errno));
        if (fd >= 0) close(fd);
        on = false;
        return -1;
    }
    return fd;
}

void append(int fd, const char* text, std::size_t bytes) {
    while (bytes) {
        const ssize_t n = ::write(fd, text, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;  // a full disk: these lines are lost
        text += n, bytes -= static_cast<std::size_t>(n);
    }
}

void write_held() {
    if (getpid() != owner) count = noted_bytes = 0;
    const int fd = count || noted_bytes ? open_file() : -1;
    char text[16384];
    std::size_t used = 0;
    if (!named && fd >= 0) {
        named = true;
        used = static_cast<std::size_t>(
            snprintf(text, sizeof text,
                     "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s %.80s\"}},\n", owner,
                     is_worker() ? "worker:" : "guest:", program_invocation_short_name));
    }
    for (std::size_t i = 0; i < count && fd >= 0; ++i) {
        const Event& e = held[i];
        used += static_cast<std::size_t>(snprintf(
            text + used, 256, "{\"ph\":\"X\",\"name\":\"%.*s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d},\n",
            static_cast<int>(e.name.size() < 100 ? e.name.size() : 100), e.name.data(),
            static_cast<double>(e.start) / 1e3, static_cast<double>(e.end - e.start) / 1e3, owner, e.thread));
        if (used > sizeof text - 256) append(fd, text, used), used = 0;
    }
    if (fd >= 0) append(fd, text, used), append(fd, noted, noted_bytes), close(fd);
    count = noted_bytes = 0;
}

pid_t this_thread() {
    thread_local const pid_t thread = static_cast<pid_t>(syscall(SYS_gettid));
    return thread;
}

// A worker has no exit to count on, but a thread to spare.
void* write_now_and_then(void*) {
    for (const timespec period{0, kPeriodNs};;) {
        nanosleep(&period, nullptr);
        flush();
    }
}

[[gnu::constructor]] void at_start() {
    if (const char* name = getenv("BARCUDA_TRACE"); name && *name) start(name);
}
[[gnu::destructor]] void at_exit() {
    if (on) flush();
}

}  // namespace

std::int64_t clock() noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void start(const char* name) noexcept {
    char here[2048] = "";
    if (*name != '/' && !getcwd(here, sizeof here)) return;  // the program may change its directory
    snprintf(path, sizeof path, "%s%s%s", here, *here ? "/" : "", name);
    owner = getpid();
    named = false;
    on = true;
}

void flush() noexcept {
    Locked locked;
    write_held();
}

void forked() noexcept {
    pthread_mutex_init(&lock, nullptr);
    count = noted_bytes = 0;
}

void note(char phase, std::int64_t at, std::uint32_t thread, std::string_view members) noexcept {
    char line[most_members + 128];
    const int bytes =
        snprintf(line, sizeof line, "{\"ph\":\"%c\",\"ts\":%.3f,\"pid\":%d,\"tid\":%u,%.*s},\n", phase,
                 static_cast<double>(at) / 1e3, owner, thread ? thread : static_cast<unsigned>(this_thread()),
                 static_cast<int>(members.size()), members.data());
    if (bytes < 0 || static_cast<std::size_t>(bytes) >= sizeof line) return;
    Locked locked;
    if (noted_bytes + static_cast<std::size_t>(bytes) > sizeof noted) write_held();
    memcpy(noted + noted_bytes, line, static_cast<std::size_t>(bytes));
    noted_bytes += static_cast<std::size_t>(bytes);
}

void take(std::string_view name, std::int64_t start) noexcept {
    const std::int64_t end = clock();
    Locked locked;
    if (static bool threaded = false; !threaded && is_worker()) {
        threaded = true;  // not in start(): the bridge reads the environment too, and forks
        pthread_t writer;
        if (pthread_create(&writer, nullptr, write_now_and_then, nullptr) == 0) pthread_detach(writer);
    }
    held[count++] = {name, start, end, this_thread()};
    if (count == kHeld) write_held();
}

}  // namespace barcuda::trace
