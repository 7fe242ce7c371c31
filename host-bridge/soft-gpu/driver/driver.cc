// SPDX-License-Identifier: Apache-2.0
// driver.cc: settings, the first cuInit, and what a fork does to us.
#include "host-bridge/soft-gpu/driver/driver.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "host-bridge/soft-gpu/driver/context.h"
#include "host-bridge/soft-gpu/driver/pool.h"

namespace barcuda::soft::driver {

thread_local bool in_host_function = false, per_thread_default = false;

namespace {

std::atomic<Driver*> the_driver{nullptr};
std::atomic<bool> in_forked_child{false};

std::size_t bytes_in(const char* text) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    switch (*end) {
        case 'T':
        case 't': return static_cast<std::size_t>(value * (1ull << 40));
        case 'G':
        case 'g': return static_cast<std::size_t>(value * (1ull << 30));
        case 'M':
        case 'm': return static_cast<std::size_t>(value * (1ull << 20));
        case 'K':
        case 'k': return static_cast<std::size_t>(value * (1ull << 10));
        default: return static_cast<std::size_t>(value);
    }
}

int usable_cores() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

}  // namespace

void log(const std::string& line) {
    const std::string text = "barcuda software GPU: " + line + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
}

void refuse(const std::string& what) { fail(CUDA_ERROR_NOT_SUPPORTED, what + " is not done on the software GPU"); }

Settings Settings::from_environment() {
    Settings settings;
    settings.cores = usable_cores();
    const auto machine =
        static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    settings.memory = std::min<std::size_t>(machine / 2, 16ull << 30);
    if (const char* text = std::getenv("BARCUDA_SOFT_MEMORY"); text && *text) {
        settings.memory = bytes_in(text);
        if (settings.memory < (1u << 20))
            fail(CUDA_ERROR_INVALID_VALUE,
                 std::string("BARCUDA_SOFT_MEMORY=") + text + ": at least 1M, as in 512M or 4G");
    }
    if (const char* text = std::getenv("BARCUDA_SOFT_DEVICES"); text && *text) {
        char* end = nullptr;
        const long count = std::strtol(text, &end, 10);
        if (*end || count < 1 || count > most_devices)
            fail(CUDA_ERROR_INVALID_VALUE, std::string("BARCUDA_SOFT_DEVICES=") + text + ": 1 to 8");
        settings.devices = static_cast<int>(count);
    }
    // Whole VMM granules, so that all of it can be given out.
    settings.memory &= ~((std::size_t{2} << 20) - 1) | (settings.memory < (2u << 20) ? ~std::size_t{0} : 0);
    if (const char* text = std::getenv("BARCUDA_SOFT_CC"); text && *text) {
        if (std::sscanf(text, "%d.%d", &settings.major, &settings.minor) != 2 || settings.major < 5 ||
            settings.major > 12 || settings.minor < 0 || settings.minor > 9)
            fail(CUDA_ERROR_INVALID_VALUE, std::string("BARCUDA_SOFT_CC=") + text + ": 5.0 to 12.9, as in 9.0");
    }
    if (const char* text = std::getenv("BARCUDA_SOFT_WINDOW"); text && *text)
        settings.window = std::strtoull(text, nullptr, 0);
    return settings;
}

Driver::Driver(const Settings& settings)
    : settings(settings), memory(settings.window, settings.memory, settings.devices, space) {}

void Driver::synchronize() {
    for (const auto& context : contexts.all()) context->synchronize();
}

Driver& Driver::get() {
    Driver* const driver = the_driver.load(std::memory_order_acquire);
    if (!driver) fail(CUDA_ERROR_NOT_INITIALIZED);
    return *driver;
}

CUresult Driver::initialize() {
    static std::mutex once;
    if (in_forked_child) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(once);
    if (the_driver.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    auto* const driver = new Driver(Settings::from_environment());  // for the life of the process
    the_driver.store(driver, std::memory_order_release);
    for (int ordinal = 0; ordinal < driver->settings.devices; ++ordinal) {
        Device& device = driver->device(ordinal);
        device.primary = std::make_shared<Context>(ordinal, CU_CTX_SCHED_AUTO, true);
        driver->contexts.add(device.primary);
        device.default_pool = std::make_shared<Pool>(ordinal);
        device.set_current(device.default_pool);
        driver->pools.add(device.default_pool);
    }
    // The child has neither our threads nor our memory: as with hardware, it cannot go on where its parent was.
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
    return CUDA_SUCCESS;
}

void require_initialized() {
    if (in_host_function) fail(CUDA_ERROR_NOT_PERMITTED);
    if (in_forked_child || !the_driver.load(std::memory_order_acquire)) fail(CUDA_ERROR_NOT_INITIALIZED);
}

}  // namespace barcuda::soft::driver
