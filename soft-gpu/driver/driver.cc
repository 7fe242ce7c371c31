// SPDX-License-Identifier: Apache-2.0
// driver.cc: settings, the first cuInit, and the effect of a fork.
#include "soft-gpu/driver/driver.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/cuda/visible_devices.h"
#include "soft-gpu/driver/card.h"
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/pool.h"

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

long number_in(const char* variable, long otherwise, long least, long most) {
    const char* const text = std::getenv(variable);
    if (!text || !*text) return otherwise;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end || value < least || value > most)
        fail(CUDA_ERROR_INVALID_VALUE,
             std::string(variable) + "=" + text + ": " + std::to_string(least) + " to " + std::to_string(most));
    return value;
}

int usable_cores() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

}  // namespace

// BarcudaSoftGPU-0 and so on.
CUuuid uuid_of(int number) {
    CUuuid uuid;
    std::memcpy(uuid.bytes, "BarcudaSoftGPU-0", sizeof uuid.bytes);
    uuid.bytes[15] = static_cast<char>('0' + number);
    return uuid;
}

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
    settings.devices = static_cast<int>(number_in("BARCUDA_SOFT_DEVICES", 1, 1, most_devices));
    settings.queues = static_cast<unsigned>(number_in("BARCUDA_SOFT_QUEUES", 0, 0, 1024));
    std::vector<CUuuid> uuids;
    std::vector<DeviceId> ids;  // in the order of their bus addresses, whatever CUDA_DEVICE_ORDER says
    for (int i = 0; i < settings.devices; ++i) uuids.push_back(uuid_of(i));
    for (const CUuuid& uuid : uuids) ids.push_back({reinterpret_cast<const unsigned char*>(uuid.bytes), ""});
    settings.numbers = visible_devices(ids, std::getenv("CUDA_VISIBLE_DEVICES"), nullptr).numbers;
    settings.devices = static_cast<int>(settings.numbers.size());
    if (settings.devices == 0) fail(CUDA_ERROR_NO_DEVICE);
    // Whole VMM granules, so that all of it can be allocated.
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
    : settings(settings), memory(settings.window, settings.memory, settings.devices, space) {
    Ledger::show(settings.numbers);
    Card::join();
    for (int d = 0; d < settings.devices; ++d) Ledger::of(d).total = settings.memory;
}

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
    // The child has neither our threads nor our memory: as with hardware, it cannot continue the work of its parent.
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
    return CUDA_SUCCESS;
}

void require_initialized() {
    if (in_host_function) fail(CUDA_ERROR_NOT_PERMITTED);
    if (in_forked_child || !the_driver.load(std::memory_order_acquire)) fail(CUDA_ERROR_NOT_INITIALIZED);
}

}  // namespace barcuda::soft::driver
