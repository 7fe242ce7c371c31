// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/nvml/library.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "shm-device/queue/sync.h"
#include "shm-device/region/snapshot.h"

namespace barcuda::guest::nvml {
namespace {

std::mutex mutex;
std::atomic<unsigned> references{0};  // nvmlInit without nvmlShutdown
// Opened under the mutex, and closed where no thread can be in it. Never destroyed: other threads ask while exit()
// runs.
Region& the_region = *new Region;
char reason[sizeof Error::text] = "";

Channel channel;
std::atomic<pid_t> owner{0};           // of the channel: a forked child has none
std::atomic<std::uint64_t> wished{0};  // when this process last wanted to know
std::atomic<std::uint64_t> due{0};     // what the snapshot's sequence must have come to

std::uint64_t milliseconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1'000'000;
}

// A bridge that was killed sends nothing, but its heartbeat stops, which the header's map shows in any guest.
bool bridge_lives() {
    static std::atomic<std::uint64_t> seen{~0ull}, since{0};
    constexpr std::uint64_t patience_ms = 5'000;  // it beats four times a second
    const std::uint64_t beat = the_region.heartbeat(), now = milliseconds();
    if (seen != beat) {  // in this order: another thread that finds it seen finds when
        since = now;
        seen = beat;
    }
    const std::uint64_t then = since;
    return the_region.served() && (then > now || now - then < patience_ms);
}

Status fail(Status status, const char* text) {
    std::snprintf(reason, sizeof reason, "%s", text);
    return status;
}

Status status_of(const Error& error) {
    switch (error.kind) {
        case Error::permission:
        case Error::foreign: return no_permission;
        case Error::other_layout:
        case Error::other_packets: return version_mismatch;
        default: return driver_not_loaded;
    }
}

std::uint64_t sequence() { return observe(the_region.snapshot()->sequence); }

// Has the bridge's monitor ask; if what there is may be old, only what comes next will do.
void wish(bool old) {
    if (old) due = (sequence() | 1) + 1;
    publish(channel.client().watching, channel.client().watching + 1);
    wished = milliseconds();
    the_region.knock();
}

// The first time the monitor may need NVIDIA's driver for some seconds.
Status await_sweep() {
    constexpr std::uint64_t patience_ms = 40'000, again_ms = 1'000, doubt_ms = 500;
    for (const std::uint64_t start = milliseconds(); sequence() < due; usleep(1000)) {
        const barcuda_u32 state = observe(the_region.snapshot()->state);
        const std::uint64_t now = milliseconds();
        if (state == BARCUDA_SNAPSHOT_NONE)
            return fail(library_not_found, "NVML does not work on the host (barcuda-bridge says why)");
        if (!the_region.served()) return fail(driver_not_loaded, "the bridge has stopped");
        const bool silent = state == BARCUDA_SNAPSHOT_SILENT && now - start > doubt_ms;  // and not only when last asked
        if (silent || now - start > patience_ms) return fail(timeout, "the host's NVML does not answer");
        if (now - wished >= again_ms) wish(false);  // a monitor that has died meanwhile is started again
    }
    return success;
}

Status open() {
    if (Error e = the_region.open(nullptr)) return fail(status_of(e), e.text);
    if (!the_region.served())
        return fail(driver_not_loaded, "no bridge serves the region: start barcuda-bridge on the host");
    if (!the_region.snapshot())
        return fail(version_mismatch, "this bridge knows nothing of NVML: upgrade barcuda-bridge on the host");
    if (Error e = the_region.open_channel(channel)) return fail(status_of(e), e.text);
    owner = getpid();
    introduce(channel.client());
    wish(true);
    return sequence() < 2 ? await_sweep() : success;  // what does not change is there
}

// A forked child opens a region and a channel of its own at its first question. The lock may be held by a thread that
// the child does not have, and that was anywhere in the region: then the child leaves that region unchanged, with its
// descriptor. (On Windows no process forks, and pthread_atfork is a macro that takes nothing.)
[[maybe_unused]] void begin_child() {
    if (mutex.try_lock()) {
        if (owner != 0 && channel) the_region.leave_channel(channel);
        the_region.close();
    } else {
        new (&the_region) Region;
    }
    new (&mutex) std::mutex;
    channel = {};
}
[[gnu::constructor]] void watch_forks() { pthread_atfork(nullptr, nullptr, begin_child); }

// Before values that change are read. The monitor continues for some seconds after each request, so one request a
// second is enough.
Status refresh() {
    constexpr std::uint64_t often_ms = 1'000, old_ms = 2'000;
    const auto enough = [] { return milliseconds() - wished < often_ms && sequence() >= due; };
    if (enough()) return success;
    std::lock_guard lock(mutex);
    if (!channel) return uninitialized;  // another thread has called nvmlShutdown
    if (milliseconds() - wished >= often_ms) wish(milliseconds() - wished >= old_ms);
    return await_sweep();
}

bool debugging() {
    static const bool wanted = [] {
        const char* text = secure_getenv("BARCUDA_LOG");
        return text && (!std::strcmp(text, "debug") || !std::strcmp(text, "trace"));
    }();
    return wanted;
}

Status status_of(snapshot::Read read) {
    switch (read) {
        case snapshot::Read::done: return success;
        case snapshot::Read::absent: return not_supported;  // a bridge of another day
        default: return timeout;
    }
}

bool silent() { return observe(the_region.snapshot()->state) != BARCUDA_SNAPSHOT_TAKEN; }

}  // namespace

const Region& region() noexcept { return the_region; }

Status ready() noexcept {
    if (references.load(std::memory_order_acquire) == 0) return uninitialized;
    if (owner != getpid()) {
        std::lock_guard lock(mutex);
        if (owner != getpid())
            if (Status s = open(); s != success) return s;
    }
    return bridge_lives() ? success : gpu_is_lost;
}

Status look_up(std::uint64_t identity, When how_often, std::size_t n, std::size_t count,
               std::span<std::byte> answer) noexcept {
    if (how_often != When::once) {
        if (Status s = refresh(); s != success) return s;
        if (silent()) return timeout;
    }
    return status_of(snapshot::answer(*the_region.snapshot(), identity, n, count, answer));
}

Status processes(std::span<barcuda_process> to, std::size_t& found) noexcept {
    if (Status s = refresh(); s != success) return s;
    return silent() ? timeout : status_of(snapshot::processes(*the_region.snapshot(), to, found));
}

Status note(const char* function, Status status) noexcept {
    if (status == success || !debugging()) return status;
    char line[160];
    const int n = std::snprintf(line, sizeof line, "barcuda: %s: %s\n", function, nvmlErrorString(status));
    [[maybe_unused]] const ssize_t written = n > 0 ? write(STDERR_FILENO, line, static_cast<std::size_t>(n)) : 0;
    return status;
}

Status init() noexcept {
    std::lock_guard lock(mutex);
    if (references.load() == 0) {
        the_region.close();
        if (Status s = open(); s != success) {
            if (channel) the_region.close_channel(channel);
            return s;
        }
    }
    references.fetch_add(1, std::memory_order_release);
    return success;
}

Status shut_down() noexcept {
    std::lock_guard lock(mutex);
    if (references.load() == 0) return uninitialized;
    if (references.fetch_sub(1, std::memory_order_release) == 1 && owner == getpid()) the_region.close_channel(channel);
    return success;
}

}  // namespace barcuda::guest::nvml

extern "C" {
// Not NVML's: how the bridge knows this library from the host's, and why nvmlInit failed, for a person (`barcuda smi`).
[[gnu::visibility("default")]] extern const char barcuda_guest_library[] = BARCUDA_VERSION;
[[gnu::visibility("default")]] const char* barcuda_nvml_reason() { return barcuda::guest::nvml::reason; }
// Copies the pids of the clients that the host has paused, as many as there is room for. Returns how many there are.
[[gnu::visibility("default")]] unsigned barcuda_nvml_paused(unsigned* pids, unsigned most) {
    namespace snapshot = barcuda::snapshot;
    using namespace barcuda::guest::nvml;
    static thread_local snapshot::PausedClients clients;
    if (ready() != barcuda::nvml::success || refresh() != barcuda::nvml::success || silent() ||
        snapshot::paused(*the_region.snapshot(), clients) != snapshot::Read::done)
        return 0;
    unsigned count = 0;
    for (; count < clients.size() && clients[count].pid; ++count)
        if (count < most) pids[count] = clients[count].pid;
    return count;
}
}
