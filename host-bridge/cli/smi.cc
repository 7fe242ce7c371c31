// SPDX-License-Identifier: Apache-2.0
// smi.cc: `barcuda smi`: a table like nvidia-smi's. If there is a region (in a guest, or under `barcuda run`), it shows
// what the guest's NVML reports: the devices and processes of that guest. Otherwise it shows what this machine's NVML
// reports: all GPUs and all processes. (NVIDIA's own program asks its library for private tables, so it runs only on
// hosts.) Scripts and agents get their answers in nvidia-smi's forms: smi_query.h.
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/nvidia_smi.h"
#include "host-bridge/cli/smi_query.h"
#include "shm-device/cuda/version.h"
#include "shm-device/region/region.h"

namespace barcuda {
namespace {

using namespace nvml;
using Json = nlohmann::ordered_json;
using smi::GpuProcess;

// Programs call this one by that name, too (nvidia_smi.h).
bool is_nvidia_smi() { return std::string_view(program_invocation_short_name) == nvidia_smi; }

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
        if (!found) away.push_back({pid, smi::program_of(pid), std::nullopt, true});
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

    gpu.processes = smi::processes_of(nvml, d);
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

using Devices = std::vector<std::pair<unsigned, Device>>;  // with their indexes

void print_table(const std::string& driver, int cuda, const Devices& devices, const std::vector<Gpu>& gpus,
                 const std::vector<GpuProcess>& away, bool of_guest) {
    fmt::print("{:%a %b %e %H:%M:%S %Y}\n", fmt::localtime(std::time(nullptr)));
    fmt::print(rule);
    fmt::print("| {:<87} |\n",
               fmt::format("{:<28}{:<36}{}", is_nvidia_smi() ? "NVIDIA-SMI " + driver : "Barcuda-SMI " BARCUDA_VERSION,
                           "Driver Version: " + driver, "CUDA Version: " + cuda_version_text(cuda)));
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
        print_gpu(devices[i].first, gpus[i]);
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
            print_process(std::to_string(devices[i].first), p);
        }
    for (const GpuProcess& p : away) print_process("-", p);
    if (!any) fmt::print("| {:<87} |\n", " No running processes found");
    fmt::print(rule);
}

struct SmiOptions {
    std::string device;
    std::string query_gpu, query_processes, format, display, id, file;
    double loop = 0, loop_ms = 0;  // seconds, milliseconds; 0: once
    bool json = false, list = false, query = false, xml = false, versions = false;
    bool help_gpu = false, help_processes = false;
};

// An NVML that is open, and what it says of all its GPUs.
struct OpenNvml {
    const NvmlLibrary& nvml;
    std::string driver;
    int cuda;
    Devices devices;
    unsigned count;
};

// Is this GPU one of those that -i names by index, UUID or place on the bus?
bool is_meant(const std::string& ids, unsigned index, const NvmlLibrary& nvml, Device device) {
    if (ids.empty()) return true;
    const std::string uuid = nvml.text<Question::nvmlDeviceGetUUID>(device);
    const auto pci = nvml.get<Question::nvmlDeviceGetPciInfo_v3, PciInfo>(device);
    std::istringstream in(ids);
    for (std::string one; std::getline(in, one, ',');)
        if (one == std::to_string(index) || one == uuid || (pci && one == printable(pci->bus_id))) return true;
    return false;
}

// Exit statuses of nvidia-smi, which its scripts know.
enum : int { not_found_here = 6, no_driver = 9 };

int say_failure(const std::string& what, int status) {
    if (!is_nvidia_smi()) return complain("smi", what, status == no_driver ? 1 : status);
    fmt::print("{}\n", what);  // it says so on standard output
    return status;
}

void print_json(const OpenNvml& o, const std::vector<Gpu>& gpus, const std::vector<GpuProcess>& away) {
    Json all = {{"driver_version", o.driver}, {"cuda_version", cuda_version_text(o.cuda)}};
    all["gpus"] = Json::array();
    for (const Gpu& gpu : gpus) all["gpus"].push_back(json_of(gpu));
    all["away"] = Json::array();  // paused, with nothing on a GPU
    for (const GpuProcess& p : away) all["away"].push_back(json_of(p));
    fmt::print("{}\n", all.dump(1));
}

// Prints what is asked, as it is now.
Failure print(const SmiOptions& c, const OpenNvml& o, const smi::Csv& csv, bool of_guest) {
    std::vector<smi::GpuNow> asked;
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    for (const auto& [index, device] : o.devices)
        asked.push_back({o.nvml, device, index, o.count, o.driver, o.cuda, now});
    if (!c.query_gpu.empty()) return print_gpus(asked, c.query_gpu, csv);
    if (!c.query_processes.empty()) return print_processes(asked, c.query_processes, csv);
    if (c.list) print_list(asked);
    else if (c.query && c.xml) print_xml(asked);
    else if (c.query) print_report(asked, c.display);
    else {
        std::vector<Gpu> gpus;
        for (const auto& [index, device] : o.devices) gpus.push_back(look(o.nvml, device));
        const std::vector<GpuProcess> away = mark_paused(o.nvml, gpus);
        if (c.json) print_json(o, gpus, away);
        else print_table(o.driver, o.cuda, o.devices, gpus, away, of_guest);
    }
    return {};
}

int print_until_killed(const SmiOptions& c, const OpenNvml& o, bool of_guest) {
    smi::Csv csv;
    if (!c.query_gpu.empty() || !c.query_processes.empty())
        if (const Failure e = parse_format(c.format, csv)) return say_failure(e.text(), wrong_usage);
    if (!c.file.empty() && !freopen(c.file.c_str(), "w", stdout))
        return say_failure(fmt::format("cannot write {}: {}", c.file, strerror(errno)), 1);
    const auto pause = std::chrono::duration<double>(c.loop + c.loop_ms / 1000);
    for (;;) {
        if (const Failure e = print(c, o, csv, of_guest)) return say_failure(e.text(), wrong_usage);
        fflush(stdout);
        if (pause.count() <= 0) return 0;
        csv.header = false;
        std::this_thread::sleep_for(pause);
    }
}

// Prints the state of this guest's GPUs. On a machine without a region, or with a `device` (cuda, soft), it prints the
// state of that machine's own GPUs.
int show(const SmiOptions& c) {
    if (c.help_gpu) smi::print_gpu_properties();
    if (c.help_processes) smi::print_process_properties();
    if (c.help_gpu || c.help_processes) return 0;
    char region[256];
    const Error no_region = find_region(region, sizeof region);
    const bool of_guest = c.device.empty() && !no_region;
    std::string path = installation().nvml;
    if (access(path.c_str(), R_OK) != 0)  // a container has the command away from the rest
        path.erase(0, path.find_last_of("/\\") + 1);
    if (!of_guest) {
        const DeviceChoice choice = choose_device(c.device.empty() ? "cuda" : c.device);
        if (!choice.error.empty())
            return say_failure((c.device.empty() ? no_region.text + std::string("; ") : "") + choice.error, no_driver);
        path = nvml_of(choice.library);
        unsetenv("CUDA_VISIBLE_DEVICES");
    }
    const NvmlLibrary nvml(path);
    if (!nvml)
        return say_failure(fmt::format("{}{}", dlerror(), of_guest ? ": run make, or make install" : ""), no_driver);
    const auto reason = [&](nvml::Status status) -> std::string {
        if (auto* f = nvml.symbol<const char*()>("barcuda_nvml_reason")) return f();
        auto* f = nvml.symbol<const char*(nvml::Status)>("nvmlErrorString");
        return fmt::format("{}: {}", path, f ? f(status) : std::to_string(status));
    };
    auto* init = nvml.symbol<nvml::Status()>("nvmlInit_v2");
    auto* count_them = nvml.symbol<nvml::Status(unsigned*)>("nvmlDeviceGetCount_v2");
    auto* handle = nvml.symbol<nvml::Status(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    if (!init || !count_them || !handle) return say_failure(path + " is too old", no_driver);
    OpenNvml o = {nvml, "", 0, {}, 0};
    if (const nvml::Status s = init(); s != success) return say_failure(reason(s), no_driver);
    if (const nvml::Status s = count_them(&o.count); s != success) return say_failure(reason(s), no_driver);
    o.driver = nvml.text<Question::nvmlSystemGetDriverVersion>();
    o.cuda = nvml.get<Question::nvmlSystemGetCudaDriverVersion_v2, int>().value_or(0);
    if (c.versions) {
        smi::print_versions(nvml, o.driver, o.cuda);
        return 0;
    }
    for (unsigned i = 0; i < o.count; ++i)
        if (Device d = nullptr; handle(i, &d) == success && is_meant(c.id, i, nvml, d)) o.devices.emplace_back(i, d);
    if (o.devices.empty() && !c.id.empty()) return say_failure("No devices were found", not_found_here);
    return print_until_killed(c, o, of_guest);
}

}  // namespace

std::vector<std::string> as_barcuda(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"barcuda", "smi"};
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "-lms") all.emplace_back("--loop-ms");
        else if (word == "-l" || word == "--loop") {
            const bool has_seconds = i + 1 < words.size() && !words[i + 1].empty() && isdigit(words[i + 1][0]);
            all.insert(all.end(), {"--loop", has_seconds ? words[++i] : "5"});
        } else all.push_back(word);
    }
    return all;
}

void add_smi(App& app) {
    const auto options = std::make_shared<SmiOptions>();
    SmiOptions& o = *options;
    const Command command = app.add(
        "smi", "the state of this guest's GPUs, and its processes that use them; on a host, all GPUs and processes",
        [options] { return show(*options); });
    command
        .add_option("--device", o.device,
                    "this machine's own, even if there is a region: cuda: its GPUs; soft: the software GPU")
        .is_member({"cuda", "soft"});
    add_json(command, o.json);
    command.add_flag("-L,--list-gpus", o.list, "one line for each GPU");
    command.add_flag("-q,--query", o.query, "all that is known of each GPU");
    command.add_flag("-x,--xml-format", o.xml, "with -q: as XML");
    command.add_option("-d,--display", o.display, "with -q: these sections alone, such as MEMORY,UTILIZATION");
    command.add_option("--query-gpu", o.query_gpu, "these properties of each GPU, separated by commas");
    command.add_flag("--help-query-gpu", o.help_gpu, "the properties that --query-gpu knows");
    command.add_option("--query-compute-apps", o.query_processes, "these properties of each process");
    command.add_flag("--help-query-compute-apps", o.help_processes, "the properties that --query-compute-apps knows");
    command.add_option("--format", o.format, "of --query-...: csv, or csv,noheader,nounits").type_name("FORMAT");
    command.add_option("-i,--id", o.id, "only GPUs with these indexes, UUIDs or bus ids, separated by commas");
    command.add_option("-f,--filename", o.file, "write into this file");
    command.add_option("-l,--loop", o.loop, "repeat every SECONDS, until the command is killed");
    command.add_option("--loop-ms", o.loop_ms, "repeat every MILLISECONDS");
    command.add_flag("--version", o.versions, "the versions of driver, NVML and CUDA");
}

}  // namespace barcuda
