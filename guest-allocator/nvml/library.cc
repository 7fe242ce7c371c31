// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/nvml/library.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "shm-device/snapshot.h"
#include "shm-device/sync.h"

namespace barcuda::guest::nvml {
namespace {

std::mutex mutex;
std::atomic<unsigned> references{0};  // nvmlInit without nvmlShutdown
Region the_region;
char reason[sizeof Error::text] = "";

std::uint64_t milliseconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1'000'000;
}

// A bridge that was killed says nothing: its heart stands still, which the header's map shows in any guest.
bool bridge_lives() {
    static std::atomic<std::uint64_t> seen{~0ull}, since{0};
    constexpr std::uint64_t patience_ms = 5'000;  // it beats four times a second
    const std::uint64_t beat = observe(the_region.header().heartbeat), now = milliseconds();
    if (seen != beat) since = now, seen = beat;  // in this order: another thread that finds it seen finds when
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

// The monitor starts with the bridge; it may need NVIDIA's driver for a second.
Status await_first_sweep() {
    constexpr std::uint64_t patience_ms = 10'000;
    const barcuda_snapshot& snapshot = *the_region.snapshot();
    for (const std::uint64_t start = milliseconds(); observe(snapshot.sequence) < 2;) {
        if (observe(snapshot.state) == BARCUDA_SNAPSHOT_NONE)
            return fail(library_not_found, "NVML does not work on the host (barcuda-bridge says why)");
        if (!the_region.served()) return fail(driver_not_loaded, "the bridge has stopped");
        if (milliseconds() - start > patience_ms) return fail(timeout, "the host's NVML does not answer");
        usleep(1000);
    }
    return success;
}

Status open() {
    if (Error e = the_region.open(nullptr)) return fail(status_of(e), e.text);
    if (!the_region.served())
        return fail(driver_not_loaded, "no bridge serves the region: start barcuda-bridge on the host");
    if (!the_region.snapshot())
        return fail(version_mismatch, "this bridge knows nothing of NVML: upgrade barcuda-bridge on the host");
    return await_first_sweep();
}

bool debugging() {
    static const bool wanted = [] {
        const char* text = std::getenv("BARCUDA_LOG");
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
    return bridge_lives() ? success : gpu_is_lost;
}

Status look_up(std::uint64_t identity, When how_often, std::size_t n, std::size_t count,
               std::span<std::byte> answer) noexcept {
    if (how_often == When::each && silent()) return timeout;
    return status_of(snapshot::answer(*the_region.snapshot(), identity, n, count, answer));
}

Status processes(std::span<barcuda_process> to, std::size_t& found) noexcept {
    return silent() ? timeout : status_of(snapshot::processes(*the_region.snapshot(), to, found));
}

Status note(const char* function, Status status) noexcept {
    if (status == success || !debugging()) return status;
    char line[160];
    const int n = std::snprintf(line, sizeof line, "barcuda: %s: %s\n", function, nvmlErrorString(status));
    return n > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(n)) < 0 ? status : status;
}

Status init() noexcept {
    std::lock_guard lock(mutex);
    if (references.load() == 0) {
        the_region.close();
        if (Status s = open(); s != success) return s;
    }
    references.fetch_add(1, std::memory_order_release);
    return success;
}

Status shut_down() noexcept {
    std::lock_guard lock(mutex);
    if (references.load() == 0) return uninitialized;
    references.fetch_sub(1, std::memory_order_release);
    return success;
}

}  // namespace barcuda::guest::nvml

extern "C" {
// Not NVML's: how the bridge knows this library from the host's, and why nvmlInit failed, for a person (`barcuda smi`).
[[gnu::visibility("default")]] extern const char barcuda_guest_library[] = BARCUDA_VERSION;
[[gnu::visibility("default")]] const char* barcuda_nvml_reason() { return barcuda::guest::nvml::reason; }
}
