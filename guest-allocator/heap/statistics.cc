// SPDX-License-Identifier: Apache-2.0
// statistics.cc: counting, and the table at exit. Nothing here allocates: a program may be low on memory, or be ending.
#include "guest-allocator/heap/statistics.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <initializer_list>
#include <iterator>

#include <cstring>

#include "base/os/own_file.h"
#include "base/os/process.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/settings.h"

namespace barcuda::heap {

Statistics statistics;

namespace {

class LineWriter {  // one write() a line: tables of several processes do not mix within a line
  public:
    explicit LineWriter(int fd) : fd_(fd) {}
    [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) noexcept {
        char text[512];
        va_list arguments;
        va_start(arguments, format);
        int n = vsnprintf(text, sizeof text - 1, format, arguments);
        va_end(arguments);
        if (n < 0) return;
        if (n > static_cast<int>(sizeof text) - 2) n = sizeof text - 2;
        text[n++] = '\n';
        write_own_file(fd_, text, static_cast<std::size_t>(n));
    }

  private:
    int fd_;
};

// "1.5 MiB", with a point whatever the program's locale has there.
struct Size {
    char text[32];
    explicit Size(std::uint64_t bytes) {
        const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
        unsigned unit = 0;
        while (bytes >> 10 * unit >= 1024 && unit < std::size(units) - 1) ++unit;
        const std::uint64_t tenths = (bytes * 10 + (std::uint64_t{1} << 10 * unit) / 2) >> 10 * unit;
        snprintf(text, sizeof text, "%8llu.%llu %s", static_cast<unsigned long long>(tenths / 10),
                 static_cast<unsigned long long>(tenths % 10), units[unit]);
    }
    const char* bare() const { return text + strspn(text, " "); }
};

}  // namespace

void forget_statistics() noexcept {
    std::memset(static_cast<void*>(&statistics), 0, sizeof statistics);  // counts; the child has one thread
}

void report(int fd) noexcept {
    LineWriter text(fd);
    const Statistics& s = statistics;
    text.line("barcuda: %s[%u]", program_invocation_short_name, os::this_process());
    text.line("  %-22s %12s %14s", "copies", "calls", "bytes");
    const struct {
        const char* name;
        const Copies& copies;
    } rows[] = {{"zero-copy", s.zero_copy},
                {"inlined", s.inlined},
                {"staged", s.staged},
                {"managed, to device", s.managed_to_device},
                {"managed, to host", s.managed_to_host}};
    for (const auto& row : rows) {
        if (&row.copies >= &s.managed_to_device && !row.copies.calls.get()) continue;
        const Size size(row.copies.bytes.get());
        text.line("  %-22s %12llu %s", row.name, static_cast<unsigned long long>(row.copies.calls.get()), size.text);
    }
    if (const auto n = s.managed_faults.get())
        text.line("  managed, faults        %llu", static_cast<unsigned long long>(n));
    const Size held(s.granted_bytes.get()), peak(s.peak_bytes.get()), fallen(s.fallback_bytes.get()),
        forked(s.fork_bytes.get());
    text.line("  extents                %llu granted, %llu released, %s held, %s at the peak",
              static_cast<unsigned long long>(s.grants.get()), static_cast<unsigned long long>(s.releases.get()),
              held.bare(), peak.bare());
    text.line("  fallbacks              %llu blocks, %s in ordinary memory",
              static_cast<unsigned long long>(s.fallbacks.get()), fallen.bare());
    if (s.forks.get() || s.fork_bytes.get())
        text.line("  forks                  %llu, %s copied in this process",
                  static_cast<unsigned long long>(s.forks.get()), forked.bare());

    const char* const reasons[] = {"not private memory to read and write", "a stack",
                                   "a page shared with another registration", "no room in the region",
                                   "no userfaultfd"};
    static_assert(std::size(reasons) == static_cast<std::size_t>(Refusal::refusals));
    if (const Size lent(s.lent_bytes.get()); s.lent.get())
        text.line("  registered             %llu in place, %s", static_cast<unsigned long long>(s.lent.get()),
                  lent.bare());
    for (std::size_t i = 0; i < std::size(reasons); ++i)
        if (const auto n = s.not_lent[i].get())
            text.line("  registered, staged     %llu: %s", static_cast<unsigned long long>(n), reasons[i]);
}

void report_at_exit(const char* destination) noexcept {
    if (!strcmp(destination, "1")) return report(2);
    const int fd = open_own_file(destination);
    if (fd < 0)
        return say(errno == EPERM ? "another user's file, or link: BARCUDA_STATS=" : "cannot write BARCUDA_STATS=",
                   destination);
    report(fd);
    close_own_file(fd);
}

}  // namespace barcuda::heap
