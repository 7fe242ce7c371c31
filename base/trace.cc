// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

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

#include "base/json.h"
#include "base/os/own_file.h"

namespace barcuda::trace {

bool on = false;

namespace {

struct Event {
    std::string_view name;
    std::int64_t start, end;
    pid_t thread;
};

constexpr std::size_t max_held = 4096;  // events before they are written: 160 KiB, and a write every few milliseconds
constexpr long period_ns = 500'000;  // a worker is killed when its client is gone: what it did last must be out by then

Event held[max_held];  // no memory is allocated here: the guest's malloc may be under way
std::size_t count = 0;
char noted[65536];  // whole lines, as append_lines() takes them
std::size_t noted_bytes = 0;
char path[4096];  // opened for each write: a program may close every descriptor that it does not know
bool named = false;
bool first = false;        // the next line is the file's first: under the file's lock
std::uint32_t served = 0;  // a worker's client
pid_t owner = 0;           // a forked child inherits what is held back; it is not the child's to write
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct LockedTrace {
    LockedTrace() { pthread_mutex_lock(&lock); }
    ~LockedTrace() { pthread_mutex_unlock(&lock); }
};

bool is_worker() { return !strcmp(program_invocation_short_name, "barcuda-bridge"); }

constexpr char begins[] = "[\n{\"ph\":\"M\"", ends[] = "\n]\n";  // the first writer names the process first

// The offset where the file's last event ends; 0: there is none yet; -1: the file is no trace. A killed process may
// have left half a line there.
off_t end_of_events(int fd, off_t size) {
    char text[2 * (most_members + 128)];  // more than a line
    const off_t from = size > static_cast<off_t>(sizeof text) ? size - static_cast<off_t>(sizeof text) : 0;
    const ssize_t bytes = pread(fd, text, sizeof text, from);
    if (size == 0) return 0;
    if (bytes >= 3 && !memcmp(text + bytes - 3, ends, 3)) return from + bytes - 3;
    for (ssize_t i = bytes - 2; i >= 0; --i)
        if (text[i] == '}' && (text[i + 1] == '\n' || text[i + 1] == ',')) return from + i + 1;
    return -1;
}

void append(int fd, const char* text, std::size_t bytes) {
    while (bytes) {
        const ssize_t n = ::write(fd, text, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;  // a full disk: these lines are lost
        text += n;
        bytes -= static_cast<std::size_t>(n);
    }
}

// The file, locked until it is closed, positioned after its last event, for the next lines. -1: the trace ends here.
int open_file() {
    const int fd = open_own_file(path, O_RDWR);
    struct stat now;
    bool ready = fd >= 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &now) == 0;
    if (ready && S_ISREG(now.st_mode)) {
        const off_t end = end_of_events(fd, now.st_size);
        if (end < 0) errno = EEXIST;  // another file is there
        ready = end >= 0 && ftruncate(fd, end) == 0 && lseek(fd, end, SEEK_SET) == end;
        first = end == 0;
    } else {
        first = !named;  // a pipe or a terminal belongs to one process
    }
    if (ready) return fd;
    fprintf(stderr, "barcuda: BARCUDA_TRACE=%s: %s\n", path, errno == EEXIST ? "it is no trace" : strerror(errno));
    if (fd >= 0) close(fd);
    on = false;
    return -1;
}

// Lines, each with ",\n" before it.
void append_lines(int fd, const char* text, std::size_t bytes) {
    if (!bytes) return;
    if (first) {
        append(fd, "[\n", 2);
        text += 2;
        bytes -= 2;
        first = false;
    }
    append(fd, text, bytes);
}

void write_held() {
    if (getpid() != owner) count = noted_bytes = served = 0;
    const int fd = count || noted_bytes || (served && !named) ? open_file() : -1;
    char text[16384];
    std::size_t used = 0;
    if (!named && fd >= 0) {
        named = true;
        char client[32] = "";
        if (served) snprintf(client, sizeof client, ",\"client\":%u", served);
        char title[300];  // longer than what is written of it, so that no character is cut here
        snprintf(title, sizeof title, "%s %s", is_worker() ? "worker:" : "guest:", program_invocation_short_name);
        used = static_cast<std::size_t>(snprintf(
            text, sizeof text, ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":%s%s}}", owner,
            json::Quoted<200>(title).text(), client));
    }
    for (std::size_t i = 0; i < count && fd >= 0; ++i) {
        const Event& e = held[i];
        used += static_cast<std::size_t>(
            snprintf(text + used, 256, ",\n{\"ph\":\"X\",\"name\":\"%.*s\",\"ts\":%s,\"dur\":%s,\"pid\":%d,\"tid\":%d}",
                     static_cast<int>(e.name.size() < 100 ? e.name.size() : 100), e.name.data(),
                     json::Microseconds(e.start).text, json::Microseconds(e.end - e.start).text, owner, e.thread));
        if (used > sizeof text - 256) {
            append_lines(fd, text, used);
            used = 0;
        }
    }
    if (fd >= 0) {
        append_lines(fd, text, used);
        append_lines(fd, noted, noted_bytes);
        append(fd, ends, 3);
        close(fd);
    }
    count = noted_bytes = 0;
}

pid_t this_thread() {
    thread_local const pid_t thread = static_cast<pid_t>(syscall(SYS_gettid));
    return thread;
}

// A worker may end without exit(), but it has a thread for this.
void* write_now_and_then(void*) {
    for (const timespec period{0, period_ns};;) {
        nanosleep(&period, nullptr);
        flush();
    }
}

[[gnu::constructor]] void at_start() {
    if (const char* name = secure_getenv("BARCUDA_TRACE"); name && *name) start(name);
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

const char* begin_run() noexcept {
    const char* const name = secure_getenv("BARCUDA_TRACE");
    struct stat now;
    if (!name || stat(name, &now) != 0 || !S_ISREG(now.st_mode)) return nullptr;  // reported later if it cannot be made
    const int fd = open_own_file(name, O_RDWR);
    if (fd < 0) return strerror(errno);
    char text[sizeof begins] = "";
    const bool trace = now.st_size == 0 || (pread(fd, text, sizeof text - 1, 0) > 0 && !strcmp(text, begins));
    const bool done = trace && ftruncate(fd, 0) == 0;
    const char* const error = !trace ? "there is a file of that name, which is no trace"
                              : done ? nullptr
                                     : strerror(errno);
    close(fd);
    return error;
}

void serves(std::uint32_t client) noexcept {
    LockedTrace locked;
    served = client;
    if (on && !named) write_held();  // the worker may be killed before it writes anything else
}

void complete() noexcept {
    struct stat now;
    if (!on || stat(path, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size == 0) return;
    LockedTrace locked;
    const int fd = open_file();
    if (fd < 0) return;
    append(fd, ends, 3);
    close(fd);
}

void flush() noexcept {
    LockedTrace locked;
    write_held();
}

void forked() noexcept {
    pthread_mutex_init(&lock, nullptr);
    count = noted_bytes = 0;
    owner = getpid();
    named = false;
}

void note(char phase, std::int64_t at, std::uint32_t thread, std::string_view members) noexcept {
    char line[most_members + 128];
    const int bytes =
        snprintf(line, sizeof line, ",\n{\"ph\":\"%c\",\"ts\":%s,\"pid\":%d,\"tid\":%u,%.*s}", phase,
                 json::Microseconds(at).text, owner, thread ? thread : static_cast<unsigned>(this_thread()),
                 static_cast<int>(members.size()), members.data());
    if (bytes < 0 || static_cast<std::size_t>(bytes) >= sizeof line) return;
    LockedTrace locked;
    if (noted_bytes + static_cast<std::size_t>(bytes) > sizeof noted) write_held();
    memcpy(noted + noted_bytes, line, static_cast<std::size_t>(bytes));
    noted_bytes += static_cast<std::size_t>(bytes);
}

void take(std::string_view name, std::int64_t start) noexcept {
    const std::int64_t end = clock();
    const pid_t thread = this_thread();  // not under the lock: the loader may have to create the variable
    LockedTrace locked;
    if (static bool threaded = false; !threaded && is_worker()) {
        threaded = true;  // not in start(): the bridge reads the environment too, and forks
        pthread_t writer;
        if (pthread_create(&writer, nullptr, write_now_and_then, nullptr) == 0) pthread_detach(writer);
    }
    held[count++] = {name, start, end, thread};
    if (count == max_held) write_held();
}

}  // namespace barcuda::trace
