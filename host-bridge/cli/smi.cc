// SPDX-License-Identifier: Apache-2.0
// smi.cc: `barcuda smi`: the table that people know from nvidia-smi, made of what the guest's NVML says, in a guest or
// under `barcuda run`. (NVIDIA's own program asks its library for private tables.)
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "host-bridge/cli/commands.h"
#include "shm-device/nvml_rows.h"

namespace barcuda {
namespace {

using namespace nvml;
using Json = nlohmann::ordered_json;

class Nvml {
  public:
    explicit Nvml(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
    explicit operator bool() const { return library_; }

    template <class F> F* symbol(const char* name) const { return reinterpret_cast<F*>(dlsym(library_, name)); }
    // The value that a function of the table gives; none: there is no such thing here.
    template <Question q, class T, class... Given> std::optional<T> get(Given... given) const {
        T value{};
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        if (!f || f(given..., &value) != success) return {};
        return value;
    }
    template <Question q, class... Given> std::string text(Given... given) const {
        char value[96];
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        return f && f(given..., value, sizeof value) == success ? value : "";
    }

  private:
    void* library_;
};

struct Process {
    unsigned pid;
    std::string name;
    std::optional<std::uint64_t> memory;  // bytes
};
struct Gpu {
    std::string name, uuid, bus;
    std::optional<nvml::Memory> memory;
    std::optional<Utilization> utilization;
    std::optional<unsigned> fan, temperature, state, power, limit, persistence, display, mode, mig;  // power: mW
    std::optional<unsigned long long> ecc;
    std::vector<Process> processes;
};

Gpu look(const Nvml& nvml, Device d) {
    using Q = Question;
    Gpu gpu;
    gpu.name = nvml.text<Q::nvmlDeviceGetName>(d);
    gpu.uuid = nvml.text<Q::nvmlDeviceGetUUID>(d);
    if (const auto pci = nvml.get<Q::nvmlDeviceGetPciInfo_v3, PciInfo>(d)) gpu.bus = pci->bus_id;
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
        f(d, &mig, &pending) == success)
        gpu.mig = mig;
    gpu.ecc = nvml.get<Q::nvmlDeviceGetTotalEccErrors, unsigned long long>(d, 1u, 0u);

    ProcessInfo infos[256];
    unsigned count = std::size(infos);
    auto* running = nvml.symbol<Status(Device, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    auto* name_of = nvml.symbol<Status(unsigned, char*, unsigned)>("nvmlSystemGetProcessName");
    if (running(d, &count, infos) != success) count = 0;
    for (const ProcessInfo& info : std::span(infos, count)) {
        char name[256] = "";
        const Status found = name_of(info.pid, name, sizeof name);
        gpu.processes.push_back(
            {info.pid, found == success || found == insufficient_size ? name : "?",
             info.used_memory == value_not_available ? std::nullopt : std::optional<std::uint64_t>(info.used_memory)});
    }
    return gpu;
}

template <class T> Json json_of(const std::optional<T>& value) { return value ? Json(*value) : Json(); }

Json json_of(const Gpu& gpu) {
    Json processes = Json::array();
    for (const Process& p : gpu.processes)
        processes.push_back({{"pid", p.pid}, {"name", p.name}, {"used_memory", json_of(p.memory)}});
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

void print_table(const std::string& driver, int cuda, const std::vector<Gpu>& gpus) {
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
    for (unsigned i = 0; i < gpus.size(); ++i) print_gpu(i, gpus[i]), fmt::print(between);
    fmt::print("\n");
    fmt::print(rule);
    fmt::print("| {:<87} |\n", "Processes (of this guest):");
    fmt::print("| {:>4} {:>12}   {:<4}   {:<43} {:>16} |\n", "GPU", "PID", "Type", "Process name", "GPU Memory");
    fmt::print("|=========================================================================================|\n");
    bool any = false;
    for (unsigned i = 0; i < gpus.size(); ++i)
        for (const Process& p : gpus[i].processes)
            any = true,
            fmt::print("| {:>4} {:>12}   {:<4}   {:<43.43} {:>16} |\n", i, p.pid, "   C", p.name, or_na(p.memory, mib));
    if (!any) fmt::print("| {:<87} |\n", " No running processes found");
    fmt::print(rule);
}

}  // namespace

int smi(bool as_json) {
    const std::string path = installation().links + "/libnvidia-ml.so.1";
    const Nvml nvml(path);
    const auto complain = [](const std::string& what) { return fmt::print(stderr, "barcuda smi: {}\n", what), 1; };
    if (!nvml) return complain(path + " is missing: run make, or make install");
    if (const Status s = nvml.symbol<Status()>("nvmlInit_v2")(); s != success)
        return complain(nvml.symbol<const char*()>("barcuda_nvml_reason")());
    unsigned count = 0;
    if (const Status s = nvml.symbol<Status(unsigned*)>("nvmlDeviceGetCount_v2")(&count); s != success)
        return complain(nvml.symbol<const char*(Status)>("nvmlErrorString")(s));
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i) gpus.push_back(look(nvml, Guest::handle(i)));
    const std::string driver = nvml.text<Question::nvmlSystemGetDriverVersion>();
    const int cuda = nvml.get<Question::nvmlSystemGetCudaDriverVersion_v2, int>().value_or(0);
    if (!as_json) return print_table(driver, cuda, gpus), 0;
    Json all = {{"driver_version", driver}, {"cuda_version", fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10)}};
    all["gpus"] = Json::array();
    for (const Gpu& gpu : gpus) all["gpus"].push_back(json_of(gpu));
    fmt::print("{}\n", all.dump(1));
    return 0;
}

}  // namespace barcuda
