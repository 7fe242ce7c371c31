// SPDX-License-Identifier: Apache-2.0
// smi.cc: `barcuda smi`: a table like nvidia-smi's. If there is a region (in a guest, or under `barcuda run`), it shows
// what the guest's NVML reports: the devices and processes of that guest. Otherwise it shows what this machine's NVML
// reports: all GPUs and all processes. (NVIDIA's own program asks its library for private tables, so it runs only on
// hosts.)
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/cli/commands.h"
#include "shm-device/region/region.h"
#include "shm-device/rows/nvml_rows.h"

namespace barcuda {
namespace {

using namespace nvml;
using Json = nlohmann::ordered_json;

// Names chosen by others (a process's, a guest's region's) must not contain control characters for a terminal, or break
// JSON.
std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return text;
}

class NvmlLibrary {
  public:
    explicit NvmlLibrary(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
    explicit operator bool() const { return library_; }

    template <class F> F* symbol(const char* name) const { return reinterpret_cast<F*>(dlsym(library_, name)); }
    // The value that a function of the table returns; none: it is not available here.
    template <Question q, class T, class... Given> std::optional<T> get(Given... given) const {
        T value{};
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        if (!f || f(given..., &value) != success) return {};
        return value;
    }
    template <Question q, class... Given> std::string text(Given... given) const {
        char value[96];
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        return f && f(given..., value, sizeof value) == success ? printable(value) : "";
    }

  private:
    void* library_;
};

// The program's name with its path, as it was called.
std::string program_of(unsigned pid) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", pid)), name, '\0');
    return name.empty() ? "?" : printable(name);
}

struct GpuProcess {
    unsigned pid;
    std::string name;
    std::optional<std::uint64_t> memory;  // bytes
    bool paused = false;                  // by the host (barcuda pause)
};
struct Gpu {
    std::string name, uuid, bus;
    std::optional<nvml::Memory> memory;
    std::optional<Utilization> utilization;
    std::optional<unsigned> fan, temperature, state, power, limit, persistence, display, mode, mig;  // power: mW
    std::optional<unsigned long long> ecc;
    std::vector<GpuProcess> processes;
};

// Of this guest; a host's NVML knows of none.
std::vector<unsigned> paused_clients(const NvmlLibrary& nvml) {
    auto* const ask = nvml.symbol<unsigned(unsigned*, unsigned)>("barcuda_nvml_paused");
    std::vector<unsigned> pids(BARCUDA_MAX_CHANNELS);
    pids.resize(ask ? std::min<std::size_t>(ask(pids.data(), BARCUDA_MAX_CHANNELS), pids.size()) : 0);
    return pids;
}

// Marks those of the GPUs' processes that are paused. Returns the others, which have nothing on a GPU.
std::vector<GpuProcess> mark_paused(const NvmlLibrary& nvml, std::vector<Gpu>& gpus) {
    std::vector<GpuProcess> away;
    for (const unsigned pid : paused_clients(nvml)) {
        bool found = false;
        for (Gpu& gpu : gpus)
            for (GpuProcess& p : gpu.processes)
                if (p.pid == pid) p.paused = found = true;
        if (!found) away.push_back({pid, program_of(pid), std::nullopt, true});
    }
    return away;
}

Gpu look(const NvmlLibrary& nvml, Device d) {
    using Q = Question;
    Gpu gpu;
    gpu.name = nvml.text<Q::nvmlDeviceGetName>(d);
    gpu.uuid = nvml.text<Q::nvmlDeviceGetUUID>(d);
    if (const auto pci = nvml.get<Q::nvmlDeviceGetPciInfo_v3, PciInfo>(d))
        gpu.bus = printable({pci->bus_id, strnlen(pci->bus_id, sizeof pci->bus_id)});
    gpu.memory = nvml.get<Q::nvmlDeviceGetMemoryInfo, nvml::Memory>(d);
    gpu.utilization = nvml.get<Q::nvmlDeviceGetUtilizationRates, Utilization>(d);
    gpu.fan = nvml.get<Q::nvmlDeviceGetFanSpeed, unsigned>(d);
    gpu.temperature = nvml.get<Q::nvmlDeviceGetTemperature, unsigned>(d, 0u);
    gpu.state = nvml.get<Q::nvmlDeviceGetPerformanceState, unsigned>(d);
    gpu.power = nvml.get<Q::nvmlDeviceGetPowerUsage, unsigned>(d);
    gpu.limit = nvml.get<Q::nvmlDeviceGetEnforcedPowerLimit, unsigned>(d);
    gpu.persistence = nvml.get<Q::nvmlDeviceGetPersistenceMode, unsigned>(d);
    gpu.display = nvml.get<Q::nvmlDeviceGetDisplayActive, unsigned>(d);
    gpu.mode = nvml.get<Q::nvmlDeviceGetComputeMode, unsigned>(d);
    unsigned pending = 0, mig = 0;
    if (auto* f = nvml.symbol<Function<Q::nvmlDeviceGetMigMode>>("nvmlDeviceGetMigMode");
        f && f(d, &mig, &pending) == success)
        gpu.mig = mig;
    gpu.ecc = nvml.get<Q::nvmlDeviceGetTotalEccErrors, unsigned long long>(d, 1u, 0u);

    std::vector<ProcessInfo> infos(BARCUDA_MAX_PROCESSES);
    auto count = static_cast<unsigned>(infos.size());
    auto* running =
        nvml.symbol<nvml::Status(Device, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    if (!running || running(d, &count, infos.data()) != success) count = 0;
    for (const ProcessInfo& info : std::span(infos).first(count))
        gpu.processes.push_back(
            {info.pid, program_of(info.pid),
             info.used_memory == value_not_available ? std::nullopt : std::optional<std::uint64_t>(info.used_memory)});
    return gpu;
}

template <class T> Json json_of(const std::optional<T>& value) { return value ? Json(*value) : Json(); }

Json json_of(const GpuProcess& p) {
    return {{"pid", p.pid}, {"name", p.name}, {"used_memory", json_of(p.memory)}, {"paused", p.paused}};
}

Json json_of(const Gpu& gpu) {
    Json processes = Json::array();
    for (const GpuProcess& p : gpu.processes) processes.push_back(json_of(p));
    Json json = {{"name", gpu.name}, {"uuid", gpu.uuid}, {"pci_bus_id", gpu.bus}};
    json["memory"] = gpu.memory
                         ? Json{{"total", gpu.memory->total}, {"used", gpu.memory->used}, {"free", gpu.memory->free}}
                         : Json();
    json["utilization"] =
        gpu.utilization ? Json{{"gpu", gpu.utilization->gpu}, {"memory", gpu.utilization->memory}} : Json();
    json["temperature"] = json_of(gpu.temperature);
    json["fan"] = json_of(gpu.fan);
    json["performance_state"] = json_of(gpu.state);
    json["power_milliwatts"] = json_of(gpu.power);
    json["power_limit_milliwatts"] = json_of(gpu.limit);
    json["uncorrected_ecc_errors"] = json_of(gpu.ecc);
    json["processes"] = processes;
    return json;
}

template <class T, class Format> std::string or_na(const std::optional<T>& value, const Format& format) {
    return value ? format(*value) : "N/A";
}
std::string mib(std::uint64_t bytes) { return fmt::format("{}MiB", bytes >> 20); }
std::string watts(unsigned milliwatts) { return fmt::format("{}W", (milliwatts + 500) / 1000); }

constexpr const char* rule =
    "+-----------------------------------------------------------------------------------------+\n";

void print_gpu(unsigned index, const Gpu& gpu) {
    const auto plain = [](auto v) { return fmt::format("{}", v); };
    const auto on_off = [](unsigned on) { return on ? "On" : "Off"; };
    const auto percent = [](auto v) { return fmt::format("{}%", v); };
    const char* modes[] = {"Default", "E. Thread", "Prohibited", "E. Process"};
    fmt::print("| {:>3}  {:<30.30} {:>3} | {:<16.16}   {:>3} | {:>20} |\n", index, gpu.name,
               or_na(gpu.persistence, on_off), gpu.bus, or_na(gpu.display, on_off), or_na(gpu.ecc, plain));
    fmt::print(
        "| {:>3}   {:>4}   {:<4} {:>21} | {:>22} | {:>7}   {:>10} |\n", or_na(gpu.fan, percent),
        or_na(gpu.temperature, [](unsigned t) { return fmt::format("{}C", t); }),
        or_na(gpu.state, [](unsigned s) { return s < 16 ? fmt::format("P{}", s) : "?"; }),
        or_na(gpu.power, watts) + " / " + or_na(gpu.limit, watts),
        or_na(gpu.memory, [](const nvml::Memory& m) { return fmt::format("{} / {}", mib(m.used), mib(m.total)); }),
        or_na(gpu.utilization, [](const Utilization& u) { return fmt::format("{}%", u.gpu); }),
        or_na(gpu.mode, [&](unsigned m) { return m < std::size(modes) ? modes[m] : "?"; }));
    fmt::print("| {:<39} | {:<22} | {:>20} |\n", "", "",
               or_na(gpu.mig, [](unsigned on) { return on ? "Enabled" : "Disabled"; }));
}

void print_process(const std::string& gpu, const GpuProcess& p) {
    const std::string memory = !p.paused ? or_na(p.memory, mib) : p.memory ? "paused, " + mib(*p.memory) : "paused";
    fmt::print("| {:>4} {:>12}   {:<4}   {:<43.43} {:>16} |\n", gpu, p.pid, "   C", p.name, memory);
}

void print_table(const std::string& driver, int cuda, const std::vector<Gpu>& gpus, const std::vector<GpuProcess>& away,
                 bool of_guest) {
    fmt::print("{:%a %b %e %H:%M:%S %Y}\n", fmt::localtime(std::time(nullptr)));
    fmt::print(rule);
    fmt::print("| {:<87} |\n",
               fmt::format("{:<28}{:<36}{}", "Barcuda-SMI " BARCUDA_VERSION, "Driver Version: " + driver,
                           fmt::format("CUDA Version: {}.{}", cuda / 1000, cuda % 1000 / 10)));
    constexpr const char* middle =
        "|-----------------------------------------+------------------------+----------------------+\n";
    fmt::print(middle);
    fmt::print("| GPU  {:<26} {:>7} | {:<15} Disp.A | {:>20} |\n", "Name", "Perst-M", "Bus-Id", "Volatile Uncorr. ECC");
    fmt::print("| Fan   Temp   Perf {:>21} | {:>22} | {:<8}  {:>10} |\n", "Pwr:Usage/Cap", "Memory-Usage", "GPU-Util",
               "Compute M.");
    fmt::print("| {:<39} | {:<22} | {:>20} |\n", "", "", "MIG M.");
    constexpr const char* under =
        "|=========================================+========================+======================|\n";
    constexpr const char* between =
        "+-----------------------------------------+------------------------+----------------------+\n";
    fmt::print(under);
    for (unsigned i = 0; i < gpus.size(); ++i) {
        print_gpu(i, gpus[i]);
        fmt::print(between);
    }
    fmt::print("\n");
    fmt::print(rule);
    fmt::print("| {:<87} |\n", of_guest ? "Processes (of this guest):" : "Processes:");
    fmt::print("| {:>4} {:>12}   {:<4}   {:<43} {:>16} |\n", "GPU", "PID", "Type", "Process name", "GPU Memory");
    fmt::print("|=========================================================================================|\n");
    bool any = !away.empty();
    for (unsigned i = 0; i < gpus.size(); ++i)
        for (const GpuProcess& p : gpus[i].processes) {
            any = true;
            print_process(std::to_string(i), p);
        }
    for (const GpuProcess& p : away) print_process("-", p);
    if (!any) fmt::print("| {:<87} |\n", " No running processes found");
    fmt::print(rule);
}

// Prints the state of this guest's GPUs. On a machine without a region, or with a `device` (cuda, soft), it prints the
// state of that machine's own GPUs. Returns 1 if there is no answer.
int smi(const std::string& device, bool as_json) {
    const auto complain = [](const std::string& what) { return barcuda::complain("smi", what); };
    char region[256];
    const Error no_region = find_region(region, sizeof region);
    const bool of_guest = device.empty() && !no_region;
    std::string path = installation().links + "/libnvidia-ml.so.1";
    if (!of_guest) {
        const DeviceChoice choice = choose_device(device.empty() ? "cuda" : device);
        if (!choice.error.empty())
            return complain((device.empty() ? no_region.text + std::string("; ") : "") + choice.error);
        path = nvml_of(choice.library);
        unsetenv("CUDA_VISIBLE_DEVICES");
    }
    const NvmlLibrary nvml(path);
    if (!nvml) return complain(fmt::format("{}{}", dlerror(), of_guest ? ": run make, or make install" : ""));
    const auto reason = [&](nvml::Status status) -> std::string {
        if (auto* f = nvml.symbol<const char*()>("barcuda_nvml_reason")) return f();
        auto* f = nvml.symbol<const char*(nvml::Status)>("nvmlErrorString");
        return fmt::format("{}: {}", path, f ? f(status) : std::to_string(status));
    };
    auto* init = nvml.symbol<nvml::Status()>("nvmlInit_v2");
    auto* count_them = nvml.symbol<nvml::Status(unsigned*)>("nvmlDeviceGetCount_v2");
    auto* handle = nvml.symbol<nvml::Status(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    if (!init || !count_them || !handle) return complain(path + " is too old");
    unsigned count = 0;
    if (const nvml::Status s = init(); s != success) return complain(reason(s));
    if (const nvml::Status s = count_them(&count); s != success) return complain(reason(s));
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i)
        if (Device d = nullptr; handle(i, &d) == success) gpus.push_back(look(nvml, d));
    const std::vector<GpuProcess> away = mark_paused(nvml, gpus);
    const std::string driver = nvml.text<Question::nvmlSystemGetDriverVersion>();
    const int cuda = nvml.get<Question::nvmlSystemGetCudaDriverVersion_v2, int>().value_or(0);
    if (!as_json) {
        print_table(driver, cuda, gpus, away, of_guest);
        return 0;
    }
    Json all = {{"driver_version", driver}, {"cuda_version", fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10)}};
    all["gpus"] = Json::array();
    for (const Gpu& gpu : gpus) all["gpus"].push_back(json_of(gpu));
    all["away"] = Json::array();  // paused, with nothing on a GPU
    for (const GpuProcess& p : away) all["away"].push_back(json_of(p));
    fmt::print("{}\n", all.dump(1));
    return 0;
}

struct SmiOptions {
    std::string device;
    bool json = false;
};

}  // namespace

void add_smi(App& app) {
    const auto options = std::make_shared<SmiOptions>();
    const Command command = app.add(
        "smi", "the state of this guest's GPUs, and its processes that use them; on a host, all GPUs and processes",
        [options] { return smi(options->device, options->json); });
    command
        .add_option("--device", options->device,
                    "this machine's own, even if there is a region: cuda: its GPUs; soft: the software GPU")
        .is_member({"cuda", "soft"});
    add_json(command, options->json);
}

}  // namespace barcuda
