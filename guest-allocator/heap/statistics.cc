// statistics.cc: counting, and the table at exit. Nothing here allocates: a program may be low on memory, or be ending.
#include "guest-allocator/heap/statistics.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/settings.h"

namespace barcuda::heap {

Statistics statistics;

namespace {

// The places that staged copies came from. A full table drops the rest into `elsewhere`: 256 places are more than
// anybody reads.
struct Site {
    std::atomic<const void*> caller{nullptr};
    Copies copies;
};
Site sites[256];
Copies elsewhere;

class Text {  // one write() a line: tables of several processes do not mix within a line
  public:
    explicit Text(int fd) : fd_(fd) {}
    [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) noexcept {
        char text[512];
        va_list arguments;
        va_start(arguments, format);
        int n = vsnprintf(text, sizeof text - 1, format, arguments);
        va_end(arguments);
        if (n < 0) return;
        if (n > static_cast<int>(sizeof text) - 2) n = sizeof text - 2;
        text[n++] = '\n';
        if (write(fd_, text, static_cast<std::size_t>(n)) < 0) return;  // nobody reads: nothing to do about it
    }

  private:
    int fd_;
};

struct Size {
    double value;
    const char* unit;
    explicit Size(std::uint64_t bytes) : value(static_cast<double>(bytes)), unit("B") {
        for (const char* next : {"KiB", "MiB", "GiB", "TiB"})
            if (value >= 1024) value /= 1024, unit = next;
    }
};

}  // namespace

bool Lock::lock_for(unsigned ms) noexcept {
    if (self.forking || !pthread_mutex_trylock(&mutex_)) return true;
    if (!ms) return false;
    timespec until;
#ifdef __SANITIZE_THREAD__  // knows the older call alone
    constexpr clockid_t clock = CLOCK_REALTIME;
    constexpr auto wait = [](pthread_mutex_t* m, clockid_t, const timespec* t) {
        return pthread_mutex_timedlock(m, t);
    };
#else
    constexpr clockid_t clock = CLOCK_MONOTONIC;
    constexpr auto wait = pthread_mutex_clocklock;
#endif
    clock_gettime(clock, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += static_cast<long>(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
    return !wait(&mutex_, clock, &until);
}

std::uint32_t now() noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return static_cast<std::uint32_t>(t.tv_sec);
}

void say(const char* a, const char* b, const char* c) noexcept {
    char text[256];
    std::size_t n = 0;
    for (const char* part : {"barcuda: ", a, b, c, "\n"})
        for (; *part && n < sizeof text; ++part) text[n++] = *part;
    const Uncancelled uncancelled;  // malloc() says something, too
    const int before = errno;
    if (write(2, text, n) < 0) errno = before;
}

void die(const char* what, const void* p) noexcept {
    char address[24] = "";
    if (p) {
        const auto value = reinterpret_cast<std::uintptr_t>(p);
        char* to = address;
        for (const char* c = ": 0x"; *c; ++c) *to++ = *c;
        for (int shift = 44; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 15];
        *to = 0;
    }
    say(what, address);
    abort();
}

void note_fallback(std::size_t bytes) noexcept {
    if (!connection.source) return;  // no region, no fallback: this memory was never meant for it
    statistics.fallback_bytes.add(bytes);
    if (!statistics.fallbacks.value.fetch_add(1, std::memory_order_relaxed))
        say(connection.source->busy() ? "the host waits for its GPU and grants nothing meanwhile: "
                                      : "the region is full: ",
            "malloc falls back to ordinary memory, whose copies are staged (BARCUDA_STATS=1 counts them)");
}

void count_staged(const void* caller, std::size_t bytes) noexcept {
    statistics.staged.add(bytes);
    constexpr std::size_t n = std::size(sites);
    std::size_t at = (reinterpret_cast<std::uintptr_t>(caller) * 0x9e3779b97f4a7c15u) >> 56;
    for (std::size_t tries = 0; tries < 16; ++tries, at = (at + 1) % n) {
        const void* there = sites[at].caller.load(std::memory_order_relaxed);
        if (!there && sites[at].caller.compare_exchange_strong(there, caller, std::memory_order_relaxed))
            there = caller;
        if (there == caller) return sites[at].copies.add(bytes);
    }
    elsewhere.add(bytes);
}

void forget_statistics() noexcept {
    // Counts and atomic pointers, all zero to begin with; the child has one thread.
    std::memset(static_cast<void*>(&statistics), 0, sizeof statistics);
    std::memset(static_cast<void*>(sites), 0, sizeof sites);
    std::memset(static_cast<void*>(&elsewhere), 0, sizeof elsewhere);
}

void report(int fd) noexcept {
    Text text(fd);
    const Statistics& s = statistics;
    text.line("barcuda: %s[%d]", program_invocation_short_name, getpid());
    text.line("  %-22s %12s %14s", "copies", "calls", "bytes");
    const struct {
        const char* name;
        const Copies& copies;
    } rows[] = {{"zero-copy", s.zero_copy}, {"inlined", s.inlined}, {"staged", s.staged}};
    for (const auto& row : rows) {
        const Size size(row.copies.bytes.get());
        text.line("  %-22s %12llu %10.1f %s", row.name, static_cast<unsigned long long>(row.copies.calls.get()),
                  size.value, size.unit);
    }
    const Size held(s.granted_bytes.get()), peak(s.peak_bytes.get()), fallen(s.fallback_bytes.get()),
        forked(s.fork_bytes.get());
    text.line("  extents                %llu granted, %llu released, %.1f %s held, %.1f %s at the peak",
              static_cast<unsigned long long>(s.grants.get()), static_cast<unsigned long long>(s.releases.get()),
              held.value, held.unit, peak.value, peak.unit);
    text.line("  fallbacks              %llu blocks, %.1f %s in ordinary memory",
              static_cast<unsigned long long>(s.fallbacks.get()), fallen.value, fallen.unit);
    if (s.forks.get() || s.fork_bytes.get())
        text.line("  forks                  %llu, %.1f %s copied in this process",
                  static_cast<unsigned long long>(s.forks.get()), forked.value, forked.unit);

    const char* const reasons[] = {"not private memory to read and write", "a stack",
                                   "a page shared with another registration", "no room in the region",
                                   "no userfaultfd"};
    static_assert(std::size(reasons) == static_cast<std::size_t>(Refusal::refusals));
    if (const Size lent(s.lent_bytes.get()); s.lent.get())
        text.line("  registered             %llu in place, %.1f %s", static_cast<unsigned long long>(s.lent.get()),
                  lent.value, lent.unit);
    for (std::size_t i = 0; i < std::size(reasons); ++i)
        if (const auto n = s.not_lent[i].get())
            text.line("  registered, staged     %llu: %s", static_cast<unsigned long long>(n), reasons[i]);

    // The ten hottest places, by bytes. Selection from 256: no sorting, no memory.
    std::uint64_t below = ~std::uint64_t{0};
    for (int line = 0; line < 10; ++line) {
        const Site* hottest = nullptr;
        for (const Site& site : sites)
            if (const auto bytes = site.copies.bytes.get();
                site.caller.load() && bytes < below && (!hottest || bytes > hottest->copies.bytes.get()))
                hottest = &site;
        if (!hottest) break;
        if (!line) text.line("  staged from");
        below = hottest->copies.bytes.get();
        const Size size(below);
        const void* caller = hottest->caller.load();
        Dl_info where = {};
        dladdr(caller, &where);
        const char* file = where.dli_fname ? strrchr(where.dli_fname, '/') : nullptr;
        text.line("  %10.1f %-3s %8llu x %s+0x%llx %s", size.value, size.unit,
                  static_cast<unsigned long long>(hottest->copies.calls.get()), file ? file + 1 : "?",
                  static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(caller) -
                                                  reinterpret_cast<std::uintptr_t>(where.dli_fbase)),
                  where.dli_sname ? where.dli_sname : "");
    }
    if (elsewhere.calls.get())
        text.line("  and %llu copies from more places than are listed",
                  static_cast<unsigned long long>(elsewhere.calls.get()));
}

void report_at_exit(const char* destination) noexcept {
    if (!strcmp(destination, "1")) return report(2);
    const int fd = open(destination, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return say("cannot write BARCUDA_STATS=", destination);
    report(fd);
    close(fd);
}

}  // namespace barcuda::heap
