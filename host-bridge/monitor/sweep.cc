// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/monitor/sweep.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "shm-device/queue/sync.h"

namespace barcuda::nvml {
namespace {

std::string uuid_of(const barcuda_device& device, const char* prefix) {
    std::string text = prefix;
    for (int i = 0; i < 16; ++i)
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", device.uuid[i]);
    return text;
}

std::uint64_t now_in_microseconds() {
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

// A guest with a limit on device memory sees a GPU of that size, and as used memory what its own clients use.
struct {
    std::uint64_t limit = 0;  // 0: none
    std::map<Device, std::uint64_t> used;
    Status (*memory)(Device, Memory*) = nullptr;
    Status (*memory_v2)(Device, MemoryV2*) = nullptr;
} of_guest;

// The last utilization that NVML reported for each device, for tell().
struct {
    Status (*ask)(Device, Utilization*) = nullptr;
    std::map<Device, Utilization> last;
} utilization;
Status note_utilization(Device device, Utilization* out) {
    const Status s = utilization.ask(device, out);
    if (s == success) utilization.last[device] = *out;
    else utilization.last.erase(device);
    return s;
}

template <class Info> Status fitted(Status (*ask)(Device, Info*), Device device, Info* info) {
    const Status s = ask(device, info);
    if (s != success || of_guest.limit == 0) return s;
    info->total = std::min<unsigned long long>(info->total, of_guest.limit);
    info->used = std::min<unsigned long long>(info->total, of_guest.used[device]);
    info->free = info->total - info->used;
    if constexpr (requires { info->reserved; }) info->reserved = 0;
    return s;
}
Status guests_memory(Device device, Memory* info) { return fitted(of_guest.memory, device, info); }
Status guests_memory_v2(Device device, MemoryV2* info) { return fitted(of_guest.memory_v2, device, info); }

}  // namespace

void* Host::symbol(const char* name) const { return dlsym(library_, name); }

std::string Host::open(const std::string& library) {
    unsetenv("CUDA_VISIBLE_DEVICES");  // NVML does not read it, but the software GPU's asks CUDA
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) return dlerror();
    if (dlsym(library_, "barcuda_guest_library"))
        return library + " is Barcuda's own guest library: run the bridge without its LD_LIBRARY_PATH";
    for (Question q{}; q < Question::count; q = Question(unsigned(q) + 1))
        functions_[static_cast<std::size_t>(q)] = symbol(question_names[static_cast<std::size_t>(q)]);
    const auto replace = [this](Question q, auto& its, auto* ours) {
        void*& function = functions_[static_cast<std::size_t>(q)];
        its = reinterpret_cast<std::remove_reference_t<decltype(its)>>(function);
        if (function) function = reinterpret_cast<void*>(ours);
    };
    replace(Question::nvmlDeviceGetMemoryInfo, of_guest.memory, &guests_memory);
    replace(Question::nvmlDeviceGetMemoryInfo_v2, of_guest.memory_v2, &guests_memory_v2);
    replace(Question::nvmlDeviceGetUtilizationRates, utilization.ask, &note_utilization);
    const auto init = reinterpret_cast<Status (*)()>(symbol("nvmlInit_v2"));
    const auto words = reinterpret_cast<const char* (*)(Status)>(symbol("nvmlErrorString"));
    if (!init) return library + " is too old: it has no nvmlInit_v2";
    if (const Status s = init(); s != success)
        return fmt::format("nvmlInit: {}", words ? words(s) : std::to_string(static_cast<int>(s)));
    return {};
}

// Finds a device by the identity that CUDA reports: a part of a GPU (MIG) has a UUID of its own.
Device Host::find(const barcuda_device& device) const {
    const auto by_uuid = reinterpret_cast<Status (*)(const char*, Device*)>(symbol("nvmlDeviceGetHandleByUUID"));
    const auto by_bus = reinterpret_cast<Status (*)(const char*, Device*)>(symbol("nvmlDeviceGetHandleByPciBusId_v2"));
    Device found = nullptr;
    for (const char* prefix : {"GPU-", "MIG-"})
        if (by_uuid && by_uuid(uuid_of(device, prefix).c_str(), &found) == success) return found;
    char bus[sizeof device.pci_bus_id + 1]{};
    std::memcpy(bus, device.pci_bus_id, sizeof device.pci_bus_id);
    return by_bus && by_bus(bus, &found) == success ? found : nullptr;
}

std::vector<Host::Use> Host::users(Device device) const {
    // Older drivers have only _v2, with the same structure.
    auto ask = reinterpret_cast<Status (*)(Device, unsigned*, ProcessInfo*)>(
        symbol("nvmlDeviceGetComputeRunningProcesses_v3"));
    if (!ask) ask = reinterpret_cast<decltype(ask)>(symbol("nvmlDeviceGetComputeRunningProcesses_v2"));
    std::vector<ProcessInfo> found(64);
    Status status = ask ? insufficient_size : not_supported;
    unsigned count = 0;
    for (int tries = 0; tries < 4 && status == insufficient_size; ++tries) {  // processes may start meanwhile
        found.resize(std::max<std::size_t>(found.size(), count + 16));
        count = static_cast<unsigned>(found.size());
        status = ask(device, &count, found.data());
    }
    std::vector<Use> users;
    for (unsigned i = 0; status == success && i < count; ++i) users.push_back({found[i].pid, found[i].used_memory});
    return users;
}

std::vector<ProcessUtilization> Host::samples(Device device, unsigned long long& since) const {
    const auto ask = reinterpret_cast<Status (*)(Device, ProcessUtilization*, unsigned*, unsigned long long)>(
        symbol("nvmlDeviceGetProcessUtilization"));
    unsigned count = 0;
    if (!ask || ask(device, nullptr, &count, since) != insufficient_size || count == 0) return {};
    std::vector<ProcessUtilization> samples(count);
    if (ask(device, samples.data(), &count, since) != success) return {};
    samples.resize(std::min<std::size_t>(count, samples.size()));
    for (const ProcessUtilization& s : samples) since = std::max(since, s.timestamp);
    return samples;
}

Sweeper::Sweeper(const Host& host, std::vector<Device> devices)
    : host_(host), devices_(std::move(devices)), sampled_(devices_.size()) {
    std::size_t bytes = 0;
    const std::uint32_t begin = snapshot::contents_offset(static_cast<std::size_t>(Question::count) + 1);
#define X(name, ...)                                                                                      \
    {                                                                                                     \
        using Row = RowOf<Question::name>;                                                                \
        const std::size_t all = Row::bytes * Row::answers(static_cast<unsigned>(devices_.size()));        \
        answers_.push_back(                                                                               \
            {Row::identity, static_cast<std::uint32_t>(begin + bytes), static_cast<std::uint32_t>(all)}); \
        bytes += all;                                                                                     \
    }
    BARCUDA_NVML_ROWS(X)
#undef X
    answers_.push_back({snapshot::paused_clients, static_cast<std::uint32_t>(begin + bytes),
                        static_cast<std::uint32_t>(sizeof(snapshot::PausedClients))});
    contents_.resize(bytes + sizeof(snapshot::PausedClients));
    ask(When::once);
}

template <Question q> void Sweeper::ask() {
    using Row = RowOf<q>;
    auto* const function = reinterpret_cast<Function<q>*>(host_.function(q));
    const barcuda_answers& place = answers_[static_cast<std::size_t>(q)];
    std::byte* at = contents_.data() + (place.offset - answers_[0].offset);
    const auto count = static_cast<unsigned>(devices_.size());
    for (std::size_t n = 0; n < Row::answers(count); ++n, at += Row::bytes) {
        typename Row::Answer answer;
        answer.set(function ? Row::ask(function, devices_.data(), count, n, answer) : function_not_found);
        std::memcpy(at, answer.memory, Row::bytes);
    }
}

void Sweeper::ask(When when) {
    using Clock = std::chrono::steady_clock;
#define X(name, ...)                                                                 \
    if (RowOf<Question::name>::how_often == when) {                                  \
        const auto begun = Clock::now();                                             \
        ask<Question::name>();                                                       \
        const std::chrono::duration<double, std::milli> took = Clock::now() - begun; \
        if (took.count() > 5) log::debug("{}: {:.1f} ms", #name, took.count());      \
    }
    BARCUDA_NVML_ROWS(X)
#undef X
}

void Sweeper::ask() {
    constexpr std::uint64_t ten_seconds = 10'000'000;
    taken_ = now_in_microseconds();
    ask(When::each);
    if (taken_ - seldom_ >= ten_seconds) {
        seldom_ = taken_;
        ask(When::seldom);
    }
}

void Sweeper::show_memory(std::uint64_t limit, const std::uint64_t* held) {
    of_guest.limit = limit;
    of_guest.used.clear();
    for (const barcuda_process& p : processes_)
        if (p.used_memory != value_not_available) of_guest.used[devices_[p.device]] += p.used_memory;
    for (std::size_t d = 0; held && d < devices_.size(); ++d)
        if (const std::uint64_t its = observe(held[d]); its != Busy::not_known) of_guest.used[devices_[d]] = its;
}

void Sweeper::show_paused(const snapshot::PausedClients& clients) {
    std::memcpy(contents_.data() + contents_.size() - sizeof clients, &clients, sizeof clients);
}

void Sweeper::tell(Busy& busy) const {
    constexpr unsigned long long recent = 3'000'000;  // samples that are older say nothing about now
    const auto percent = [](unsigned n) { return static_cast<unsigned char>(std::min(n, 100u)); };
    std::memset(busy.clients, samples_are_known() ? 0 : Busy::unknown, sizeof busy.clients);
    for (const Share& its : busy_)
        if (its.sampled + recent > taken_) busy.clients[its.slot][its.device] = percent(its.percent);
    for (unsigned d = 0; d < devices_.size(); ++d) {
        const auto last = utilization.last.find(devices_[d]);
        busy.gpus[d] = last == utilization.last.end() ? Busy::unknown : percent(last->second.gpu);
        Memory memory{};
        const bool known = of_guest.memory && of_guest.memory(devices_[d], &memory) == success;
        busy.free[d] = known ? memory.free : Busy::not_known;
    }
    publish(busy.taken, taken_);
}

// Forgets processes that have ended, or that were idle for some time.
void Sweeper::forget_the_old() {
    constexpr unsigned long long a_while = 60'000'000;
    std::erase_if(seen_, [&](const auto& s) { return s.second.timestamp + a_while < sampled_[s.first.first]; });
}

}  // namespace barcuda::nvml
