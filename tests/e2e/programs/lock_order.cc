// SPDX-License-Identifier: Apache-2.0
// lock_order.cc: preloaded beside a library, it notes in which order the library's threads take its locks, and says
// where two orders contradict each other, also where the threads never met. The loader's lock is one of them: a thread
// that loads a library holds it while constructors run, which may call any function, so it comes before all others:
// whatever takes it under a lock of the library's is an error.
//
//   LOCK_ORDER_LIBRARY=NAME   of the library: whose calls are noted (a part of its path)
//   LOCK_ORDER_REPORT=FILE    is added to: errors, and at the end how much was seen
//
// A lock is its address: locks in memory that is freed again would need more. Places are offsets in the library, for
// addr2line.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace {

std::uintptr_t library_begin = 0, library_end = 0, library_base = 0;
char report_path[512];
bool child = false;  // its threads are fewer, and its locks may be open

void report(const char* format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    const int to = open(report_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (to < 0 || n < 0 || syscall(SYS_write, to, line, n) != n) abort();  // write() is the library's, too
    close(to);
}

// ---- locks and their orders
constexpr int most = 512;
std::atomic<const void*> locks[most];
struct Order {
    std::atomic<std::uintptr_t> place;  // where the second was taken under the first; 0: never
} orders[most][most];
std::atomic_flag noting = ATOMIC_FLAG_INIT;
std::atomic<long> taken{0}, noted{0}, loads{0};

int number_of(const void* lock) {
    for (int i = 0; i < most; ++i) {
        const void* none = nullptr;
        if (locks[i].load() == lock || locks[i].compare_exchange_strong(none, lock) || none == lock) return i;
    }
    report("ERROR: more than %d locks\n", most);
    abort();
}

struct Held {
    int locks[64];
    int count;
};
__thread Held held __attribute__((tls_model("initial-exec")));

bool leads(int from, int to, bool (&seen)[most]) {
    if (from == to) return true;
    seen[from] = true;
    for (int i = 0; i < most && locks[i].load(); ++i)
        if (!seen[i] && orders[from][i].place.load() && leads(i, to, seen)) return true;
    return false;
}

void note(int lock, std::uintptr_t place) {
    for (int i = 0; i < held.count; ++i) {
        Order& order = orders[held.locks[i]][lock];
        if (order.place.load()) continue;
        while (noting.test_and_set()) {}
        bool seen[most] = {};
        const bool contradicts = leads(lock, held.locks[i], seen);
        order.place.store(place);
        noting.clear();
        ++noted;
        if (!contradicts) continue;
        report("ERROR: at +0x%lx a thread takes lock %d and holds lock %d\n", place, lock, held.locks[i]);
        for (int from = 0; from < most; ++from)
            for (int to = 0; to < most; ++to)
                if (seen[from] && orders[from][to].place.load())
                    report("       at +0x%lx a thread has taken lock %d and held lock %d\n",
                           orders[from][to].place.load(), to, from);
    }
}

bool is_watched(const void* caller) {
    const auto at = reinterpret_cast<std::uintptr_t>(caller);
    return at >= library_begin && at < library_end && !child;
}

void take(const void* mutex, const void* caller, bool waits) {
    const int lock = number_of(mutex);
    if (waits) note(lock, reinterpret_cast<std::uintptr_t>(caller) - library_base);
    if (held.count == 64) abort();
    held.locks[held.count++] = lock;
    ++taken;
}
void give(const void* mutex) {
    for (int i = held.count; i-- > 0;) {
        if (locks[held.locks[i]].load() != mutex) continue;
        memmove(&held.locks[i], &held.locks[i + 1], static_cast<std::size_t>(--held.count - i) * sizeof held.locks[0]);
        return;
    }
}

void touch_loader(const char* function, const void* caller) {
    if (child || !library_end) return;
    ++loads;
    if (held.count)
        report("ERROR: at +0x%lx a thread calls %s and holds lock %d\n",
               reinterpret_cast<std::uintptr_t>(caller) - library_base, function, held.locks[held.count - 1]);
}

// ---- the functions behind
template <class F> F* behind(const char* name) {
    void* const f = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");  // not ours: dlvsym is none of those below
    return reinterpret_cast<F*>(
        f ? f
          : dlvsym(RTLD_NEXT, name, strcmp(name, "dladdr1") && strcmp(name, "dlinfo") ? "GLIBC_2.18" : "GLIBC_2.3.3"));
}
#define PUBLIC extern "C" __attribute__((visibility("default")))
using OnMutex = int(pthread_mutex_t*);
OnMutex *real_lock, *real_trylock, *real_unlock;
// The caller's address stays the caller's: the loader goes by it, so each of these ends in a jump.
#define LOADERS(result, name, parameters, arguments)                      \
    result(*real_##name) parameters;                                      \
    PUBLIC result name parameters noexcept {                              \
        touch_loader(#name, __builtin_return_address(0));                 \
        if (!real_##name) real_##name = behind<result parameters>(#name); \
        return real_##name arguments;                                     \
    }

}  // namespace

PUBLIC int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
    if (!real_lock) real_lock = behind<OnMutex>("pthread_mutex_lock");
    if (is_watched(__builtin_return_address(0))) take(m, __builtin_return_address(0), true);
    return real_lock(m);
}
PUBLIC int pthread_mutex_trylock(pthread_mutex_t* m) noexcept {
    if (!real_trylock) real_trylock = behind<OnMutex>("pthread_mutex_trylock");
    const int r = real_trylock(m);
    if (r == 0 && is_watched(__builtin_return_address(0))) take(m, __builtin_return_address(0), false);
    return r;
}
PUBLIC int pthread_mutex_unlock(pthread_mutex_t* m) noexcept {
    if (!real_unlock) real_unlock = behind<OnMutex>("pthread_mutex_unlock");
    if (held.count && !child) give(m);  // whatever the caller: a function may end in a jump to this one
    return real_unlock(m);
}

LOADERS(void*, dlopen, (const char* file, int mode), (file, mode))
LOADERS(int, dlclose, (void* library), (library))
LOADERS(void*, dlsym, (void* library, const char* name), (library, name))
LOADERS(int, dladdr, (const void* at, Dl_info* info), (at, info))
LOADERS(int, dladdr1, (const void* at, Dl_info* info, void** extra, int flags), (at, info, extra, flags))
LOADERS(int, dlinfo, (void* library, int request, void* to), (library, request, to))
LOADERS(int, dl_iterate_phdr, (int (*visit)(dl_phdr_info*, size_t, void*), void* data), (visit, data))
LOADERS(int, __cxa_thread_atexit_impl, (void (*f)(void*), void* object, void* library), (f, object, library))

namespace {

int find(dl_phdr_info* info, size_t, void*) {
    if (!strstr(info->dlpi_name, getenv("LOCK_ORDER_LIBRARY"))) return 0;
    library_base = info->dlpi_addr;
    std::uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
        if (library_base + part.p_vaddr < begin) begin = library_base + part.p_vaddr;
        if (library_base + part.p_vaddr + part.p_memsz > end) end = library_base + part.p_vaddr + part.p_memsz;
    }
    library_begin = begin;
    library_end = end;
    return 1;
}
[[gnu::constructor]] void begin() {
    const char* const to = getenv("LOCK_ORDER_REPORT");
    if (!to || !getenv("LOCK_ORDER_LIBRARY")) return;
    snprintf(report_path, sizeof report_path, "%s", to);
    pthread_atfork(nullptr, nullptr, [] { child = true; });
    dl_iterate_phdr(find, nullptr);
}
[[gnu::destructor]] void end() {
    if (library_end && !child)
        report("saw %ld orders of locks, which were taken %ld times, and %ld calls of the loader\n", noted.load(),
               taken.load(), loads.load());
}

}  // namespace
