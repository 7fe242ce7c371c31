// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/smi_properties.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstring>
#include <initializer_list>

#include "shm-device/layout.h"

namespace barcuda::smi {
namespace {

using namespace nvml;
using Q = Question;

template <class T> Value number(const std::optional<T>& value) {
    if (!value) return {};
    return fmt::format("{}", *value);
}
Value words(std::string text) {
    if (text.empty()) return {};
    return text;
}
template <class T> Value one_of(const std::optional<T>& value, std::initializer_list<const char*> names) {
    if (!value || *value >= names.size()) return {};
    return std::data(names)[*value];
}

// ---- answers of one question each
template <Q q> Value text(const GpuNow& g) { return words(g.nvml.text<q>(g.device)); }
template <Q q> Value count(const GpuNow& g) { return number(g.nvml.get<q, unsigned>(g.device)); }
template <Q q, unsigned key> Value keyed(const GpuNow& g) { return number(g.nvml.get<q, unsigned>(g.device, key)); }
template <Q q> Value enabled(const GpuNow& g) {
    return one_of(g.nvml.get<q, unsigned>(g.device), {"Disabled", "Enabled"});
}
template <Q q> Value yes(const GpuNow& g) { return one_of(g.nvml.get<q, unsigned>(g.device), {"No", "Yes"}); }
template <Q q> Value busy(const GpuNow& g) {
    const auto both = g.nvml.both<q>(g.device);
    return both ? number(std::optional(both->first)) : Value();
}
template <Q q, bool later> Value mode(const GpuNow& g) {
    const auto both = g.nvml.both<q>(g.device);
    return one_of(both ? std::optional(later ? both->second : both->first) : std::nullopt, {"Disabled", "Enabled"});
}
template <Q q> Value watts(const GpuNow& g) {
    const auto milliwatts = g.nvml.get<q, unsigned>(g.device);
    return milliwatts ? words(fmt::format("{:.2f}", *milliwatts / 1000.0)) : Value();
}
template <bool most> Value power_bound(const GpuNow& g) {
    const auto both = g.nvml.both<Q::nvmlDeviceGetPowerManagementLimitConstraints>(g.device);
    return both ? words(fmt::format("{:.2f}", (most ? both->second : both->first) / 1000.0)) : Value();
}
template <auto member, int digits> Value pci(const GpuNow& g) {
    const auto info = g.nvml.get<Q::nvmlDeviceGetPciInfo_v3, PciInfo>(g.device);
    return info ? words(fmt::format("0x{:0{}X}", (*info).*member, digits)) : Value();
}
template <auto member> Value pci_class(const GpuNow& g) {
    const auto info = g.nvml.versioned<Q::nvmlDeviceGetPciInfoExt, PciInfoExt, 1>(g.device);
    return info ? words(fmt::format("0x{:X}", (*info).*member)) : Value();
}
Value bus_id(const GpuNow& g) {
    const auto info = g.nvml.get<Q::nvmlDeviceGetPciInfo_v3, PciInfo>(g.device);
    return info ? words(printable({info->bus_id, strnlen(info->bus_id, sizeof info->bus_id)})) : Value();
}
// nvidia-smi counts what the driver keeps for itself apart from what is used.
enum class MemoryPart { total, reserved, used, free };
template <MemoryPart part> Value memory(const GpuNow& g) {
    unsigned long long bytes = 0;
    if (const auto m = g.nvml.versioned<Q::nvmlDeviceGetMemoryInfo_v2, MemoryV2, 2>(g.device)) {
        bytes = part == MemoryPart::total      ? m->total
                : part == MemoryPart::reserved ? m->reserved
                : part == MemoryPart::used     ? m->used
                                               : m->free;
    } else if (const auto old = g.nvml.get<Q::nvmlDeviceGetMemoryInfo, Memory>(g.device)) {
        if (part == MemoryPart::reserved) return {};
        bytes = part == MemoryPart::total ? old->total : part == MemoryPart::used ? old->used : old->free;
    } else return {};
    return std::to_string(bytes >> 20);
}
template <Q q, auto member> Value mebibytes(const GpuNow& g) {
    const auto m = g.nvml.get<q, Memory>(g.device);
    return m ? words(std::to_string((*m).*member >> 20)) : Value();
}
template <auto member> Value utilization(const GpuNow& g) {
    const auto u = g.nvml.get<Q::nvmlDeviceGetUtilizationRates, Utilization>(g.device);
    return u ? number(std::optional((*u).*member)) : Value();
}
template <unsigned type, unsigned counter, unsigned location> Value ecc_errors(const GpuNow& g) {
    return number(
        g.nvml.get<Q::nvmlDeviceGetMemoryErrorCounter, unsigned long long>(g.device, type, counter, location));
}
template <unsigned type, unsigned counter> Value ecc_total(const GpuNow& g) {
    return number(g.nvml.get<Q::nvmlDeviceGetTotalEccErrors, unsigned long long>(g.device, type, counter));
}
enum class Row { correctable, uncorrectable, pending, failure };
template <Row row> Value remapped(const GpuNow& g) {
    unsigned v[4] = {};
    auto* f = g.nvml.symbol<Function<Q::nvmlDeviceGetRemappedRows>>("nvmlDeviceGetRemappedRows");
    if (!f || f(g.device, &v[0], &v[1], &v[2], &v[3]) != success) return {};
    const auto value = std::optional(v[static_cast<unsigned>(row)]);
    return row == Row::pending || row == Row::failure ? one_of(value, {"No", "Yes"}) : number(value);
}
template <auto member> Value banks(const GpuNow& g) {
    const auto h = g.nvml.get<Q::nvmlDeviceGetRowRemapperHistogram, RowRemapperHistogram>(g.device);
    return h ? number(std::optional((*h).*member)) : Value();
}
template <Q q> Value mask(const GpuNow& g) {
    const auto bits = g.nvml.get<q, unsigned long long>(g.device);
    return bits ? words(fmt::format("0x{:016X}", *bits)) : Value();
}
template <unsigned long long bit> Value reason(const GpuNow& g) {
    auto bits = g.nvml.get<Q::nvmlDeviceGetCurrentClocksEventReasons, unsigned long long>(g.device);
    if (!bits) bits = g.nvml.get<Q::nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long>(g.device);
    return bits ? words(*bits & bit ? "Active" : "Not Active") : Value();
}
// A value that has no function of its own: NVML_FI_...
template <unsigned field> Value of_field(const GpuNow& g) {
    FieldValue value = {};
    value.field = field;
    auto* f = g.nvml.symbol<Status(Device, int, FieldValue*)>("nvmlDeviceGetFieldValues");
    if (!f || f(g.device, 1, &value) != success || value.status != success) return {};
    return std::to_string(static_cast<unsigned>(value.value));  // these are unsigned int
}
constexpr unsigned memory_temperature = 82;

// ---- those that are not one question
std::string timestamp(const timespec& at) {
    return fmt::format("{:%Y/%m/%d %H:%M:%S}.{:03}", fmt::localtime(at.tv_sec), at.tv_nsec / 1000000);
}
Value compute_capability(const GpuNow& g) {
    int major = 0, minor = 0;
    auto* f = g.nvml.symbol<Function<Q::nvmlDeviceGetCudaComputeCapability>>("nvmlDeviceGetCudaComputeCapability");
    if (!f || f(g.device, &major, &minor) != success) return {};
    return fmt::format("{}.{}", major, minor);
}
Value performance_state(const GpuNow& g) {
    const auto state = g.nvml.get<Q::nvmlDeviceGetPerformanceState, unsigned>(g.device);
    return state && *state < 16 ? words(fmt::format("P{}", *state)) : Value();
}
Value compute_mode(const GpuNow& g) {
    return one_of(g.nvml.get<Q::nvmlDeviceGetComputeMode, unsigned>(g.device),
                  {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"});
}
Value brand(const GpuNow& g) {
    return one_of(g.nvml.get<Q::nvmlDeviceGetBrand, unsigned>(g.device),
                  {"Unknown", "Quadro", "Tesla", "NVS", "GRID", "GeForce", "Titan", "NVIDIA Virtual Applications",
                   "NVIDIA Virtual PC", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation",
                   "NVIDIA Cloud Gaming", "Quadro RTX", "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX"});
}
Value architecture(const GpuNow& g) {
    const auto generation = g.nvml.get<Q::nvmlDeviceGetArchitecture, unsigned>(g.device);
    return one_of(generation, {"Unknown", "Unknown", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere",
                               "Ada Lovelace", "Hopper", "Blackwell"});
}
Value board(const GpuNow& g) {
    const auto id = g.nvml.get<Q::nvmlDeviceGetBoardId, unsigned>(g.device);
    return id ? words(fmt::format("0x{:x}", *id)) : Value();
}
Value firmware(const GpuNow& g) {
    const auto version = g.nvml.get<Q::nvmlDeviceGetGspFirmwareVersion, Version80>(g.device);
    return version ? words(printable({version->text, strnlen(version->text, sizeof version->text)})) : Value();
}

using Table = std::vector<Property>;

// ---- several rows of one kind
template <bool uncorrected, bool aggregate> void add_ecc(Table& all) {
    const std::string begin = fmt::format("ecc.errors.{}.{}.", uncorrected ? "uncorrected" : "corrected",
                                          aggregate ? "aggregate" : "volatile");
    const std::pair<const char*, Answer<GpuNow>> places[] = {{"device_memory", ecc_errors<uncorrected, aggregate, 2>},
                                                             {"dram", ecc_errors<uncorrected, aggregate, 2>},
                                                             {"register_file", ecc_errors<uncorrected, aggregate, 3>},
                                                             {"l1_cache", ecc_errors<uncorrected, aggregate, 0>},
                                                             {"l2_cache", ecc_errors<uncorrected, aggregate, 1>},
                                                             {"texture_memory", ecc_errors<uncorrected, aggregate, 4>},
                                                             {"cbu", ecc_errors<uncorrected, aggregate, 6>},
                                                             {"sram", ecc_errors<uncorrected, aggregate, 7>},
                                                             {"total", ecc_total<uncorrected, aggregate>}};
    for (const auto& [place, answer] : places) all.push_back({begin + place, answer});
}
template <unsigned long long bit> Property event(const std::string& name) {
    return {"clocks_event_reasons." + name, reason<bit>, "", "clocks_throttle_reasons." + name};
}

// clang-format off
Table properties_of_gpus() {
    Table all = {
        {"timestamp", [](const GpuNow& g) { return words(timestamp(g.at)); }},
        {"driver_version", [](const GpuNow& g) { return words(g.driver); }},
        {"count", [](const GpuNow& g) { return number(std::optional(g.count)); }},
        {"name", text<Q::nvmlDeviceGetName>, "", "gpu_name"},
        {"serial", text<Q::nvmlDeviceGetSerial>, "", "gpu_serial"},
        {"uuid", text<Q::nvmlDeviceGetUUID>, "", "gpu_uuid"},
        {"pci.bus_id", bus_id, "", "gpu_bus_id"},
        {"pci.domain", pci<&PciInfo::domain, 4>},
        {"pci.bus", pci<&PciInfo::bus, 2>},
        {"pci.device", pci<&PciInfo::device, 2>},
        {"pci.baseClass", pci_class<&PciInfoExt::base_class>},
        {"pci.subClass", pci_class<&PciInfoExt::sub_class>},
        {"pci.device_id", pci<&PciInfo::device_id, 8>},
        {"pci.sub_device_id", pci<&PciInfo::subsystem_id, 8>},
        {"pcie.link.gen.current", count<Q::nvmlDeviceGetCurrPcieLinkGeneration>},
        {"pcie.link.gen.gpucurrent", count<Q::nvmlDeviceGetCurrPcieLinkGeneration>},
        {"pcie.link.gen.max", count<Q::nvmlDeviceGetMaxPcieLinkGeneration>},
        {"pcie.link.gen.gpumax", count<Q::nvmlDeviceGetGpuMaxPcieLinkGeneration>},
        {"pcie.link.gen.hostmax", unanswered},
        {"pcie.link.width.current", count<Q::nvmlDeviceGetCurrPcieLinkWidth>, "", "", "x"},
        {"pcie.link.width.max", count<Q::nvmlDeviceGetMaxPcieLinkWidth>, "", "", "x"},
        {"index", [](const GpuNow& g) { return number(std::optional(g.index)); }},
        {"display_mode", enabled<Q::nvmlDeviceGetDisplayMode>},
        {"display_attached", unanswered},
        {"display_active", enabled<Q::nvmlDeviceGetDisplayActive>},
        {"persistence_mode", enabled<Q::nvmlDeviceGetPersistenceMode>},
        {"addressing_mode", unanswered},
        {"accounting.mode", unanswered},
        {"accounting.buffer_size", unanswered},
        {"driver_model.current", unanswered},
        {"driver_model.pending", unanswered},
        {"vbios_version", text<Q::nvmlDeviceGetVbiosVersion>},
        {"inforom.img", text<Q::nvmlDeviceGetInforomImageVersion>, "", "inforom.image"},
        {"inforom.oem", unanswered},
        {"inforom.ecc", unanswered},
        {"inforom.pwr", unanswered, "", "inforom.power"},
        {"inforom.checksum_validation", unanswered},
        {"gpu_recovery_action", unanswered},
        {"gom.current", unanswered, "", "gpu_operation_mode.current"},
        {"gom.pending", unanswered, "", "gpu_operation_mode.pending"},
        {"fan.speed", count<Q::nvmlDeviceGetFanSpeed>, "%"},
        {"pstate", performance_state},
        {"clocks_event_reasons.supported", mask<Q::nvmlDeviceGetSupportedClocksEventReasons>,
            "", "clocks_throttle_reasons.supported"},
        {"clocks_event_reasons.active", mask<Q::nvmlDeviceGetCurrentClocksEventReasons>,
            "", "clocks_throttle_reasons.active"},
        event<0x1>("gpu_idle"),
        event<0x2>("applications_clocks_setting"),
        event<0x4>("sw_power_cap"),
        event<0x8>("hw_slowdown"),
        event<0x40>("hw_thermal_slowdown"),
        event<0x80>("hw_power_brake_slowdown"),
        event<0x20>("sw_thermal_slowdown"),
        event<0x10>("sync_boost"),
        {"clocks_event_reasons_counters.sw_power_cap", unanswered, "us"},
        {"clocks_event_reasons_counters.sync_boost", unanswered, "us"},
        {"clocks_event_reasons_counters.sw_thermal_slowdown", unanswered, "us"},
        {"clocks_event_reasons_counters.hw_thermal_slowdown", unanswered, "us"},
        {"clocks_event_reasons_counters.hw_power_brake_slowdown", unanswered, "us"},
        {"memory.total", memory<MemoryPart::total>, "MiB"},
        {"memory.reserved", memory<MemoryPart::reserved>, "MiB"},
        {"memory.used", memory<MemoryPart::used>, "MiB"},
        {"memory.free", memory<MemoryPart::free>, "MiB"},
        {"compute_mode", compute_mode},
        {"compute_cap", compute_capability},
        {"utilization.gpu", utilization<&Utilization::gpu>, "%"},
        {"utilization.memory", utilization<&Utilization::memory>, "%"},
        {"utilization.encoder", busy<Q::nvmlDeviceGetEncoderUtilization>, "%"},
        {"utilization.decoder", busy<Q::nvmlDeviceGetDecoderUtilization>, "%"},
        {"utilization.jpeg", busy<Q::nvmlDeviceGetJpgUtilization>, "%"},
        {"utilization.ofa", busy<Q::nvmlDeviceGetOfaUtilization>, "%"},
        {"encoder.stats.sessionCount", unanswered},
        {"encoder.stats.averageFps", unanswered},
        {"encoder.stats.averageLatency", unanswered},
        {"dramEncryption.mode.current", unanswered},
        {"dramEncryption.mode.pending", unanswered},
        {"ecc.mode.current", mode<Q::nvmlDeviceGetEccMode, false>},
        {"ecc.mode.pending", mode<Q::nvmlDeviceGetEccMode, true>},
    };
    add_ecc<false, false>(all);
    add_ecc<false, true>(all);
    add_ecc<true, false>(all);
    add_ecc<true, true>(all);
    all.insert(all.end(), {
        {"retired_pages.single_bit_ecc.count", unanswered, "", "retired_pages.sbe"},
        {"retired_pages.double_bit.count", unanswered, "", "retired_pages.dbe"},
        {"retired_pages.pending", yes<Q::nvmlDeviceGetRetiredPagesPendingStatus>},
        {"remapped_rows.correctable", remapped<Row::correctable>, "", "remapped_rows.sbe"},
        {"remapped_rows.uncorrectable", remapped<Row::uncorrectable>, "", "remapped_rows.dbe"},
        {"remapped_rows.pending", remapped<Row::pending>},
        {"remapped_rows.failure", remapped<Row::failure>},
        {"remapped_rows.histogram.max", banks<&RowRemapperHistogram::max>, "", "", " bank(s)"},
        {"remapped_rows.histogram.high", banks<&RowRemapperHistogram::high>, "", "", " bank(s)"},
        {"remapped_rows.histogram.partial", banks<&RowRemapperHistogram::partial>, "", "", " bank(s)"},
        {"remapped_rows.histogram.low", banks<&RowRemapperHistogram::low>, "", "", " bank(s)"},
        {"remapped_rows.histogram.none", banks<&RowRemapperHistogram::none>, "", "", " bank(s)"},
        {"temperature.gpu", keyed<Q::nvmlDeviceGetTemperature, 0>, "", "", " C"},
        {"temperature.gpu.tlimit", unanswered, "", "", " C"},
        {"temperature.memory", of_field<memory_temperature>, "", "", " C"},
        {"power.management", enabled<Q::nvmlDeviceGetPowerManagementMode>},
        {"power.draw", watts<Q::nvmlDeviceGetPowerUsage>, "W"},
        {"power.draw.average", unanswered, "W", "gpu.power.draw.average"},
        {"power.draw.instant", unanswered, "W", "gpu.power.draw.instant"},
        {"power.limit", watts<Q::nvmlDeviceGetPowerManagementLimit>, "W", "gpu.power.requested_limit"},
        {"enforced.power.limit", watts<Q::nvmlDeviceGetEnforcedPowerLimit>, "W", "gpu.power.current_limit"},
        {"power.default_limit", watts<Q::nvmlDeviceGetPowerManagementDefaultLimit>, "W", "gpu.power.default_limit"},
        {"power.min_limit", power_bound<false>, "W", "gpu.power.min_limit"},
        {"power.max_limit", power_bound<true>, "W", "gpu.power.max_limit"},
        {"module.power.draw.average", unanswered, "W"},
        {"module.power.draw.instant", unanswered, "W"},
        {"module.power.limit", unanswered, "W", "module.power.requested_limit"},
        {"module.enforced.power.limit", unanswered, "W", "module.power.current_limit"},
        {"module.power.default_limit", unanswered, "W"},
        {"module.power.min_limit", unanswered, "W"},
        {"module.power.max_limit", unanswered, "W"},
        {"edpp_multiplier", unanswered, "%"},
        {"clocks.current.graphics", keyed<Q::nvmlDeviceGetClockInfo, 0>, "MHz", "clocks.gr"},
        {"clocks.current.sm", keyed<Q::nvmlDeviceGetClockInfo, 1>, "MHz", "clocks.sm"},
        {"clocks.current.memory", keyed<Q::nvmlDeviceGetClockInfo, 2>, "MHz", "clocks.mem"},
        {"clocks.current.video", keyed<Q::nvmlDeviceGetClockInfo, 3>, "MHz", "clocks.video"},
        {"clocks.applications.graphics", keyed<Q::nvmlDeviceGetApplicationsClock, 0>, "MHz", "clocks.applications.gr"},
        {"clocks.applications.memory", keyed<Q::nvmlDeviceGetApplicationsClock, 2>, "MHz", "clocks.applications.mem"},
        {"clocks.default_applications.graphics", keyed<Q::nvmlDeviceGetDefaultApplicationsClock, 0>,
            "MHz", "clocks.default_applications.gr"},
        {"clocks.default_applications.memory", keyed<Q::nvmlDeviceGetDefaultApplicationsClock, 2>,
            "MHz", "clocks.default_applications.mem"},
        {"clocks.max.graphics", keyed<Q::nvmlDeviceGetMaxClockInfo, 0>, "MHz", "clocks.max.gr"},
        {"clocks.max.sm", keyed<Q::nvmlDeviceGetMaxClockInfo, 1>, "MHz"},
        {"clocks.max.memory", keyed<Q::nvmlDeviceGetMaxClockInfo, 2>, "MHz", "clocks.max.mem"},
        {"mig.mode.current", mode<Q::nvmlDeviceGetMigMode, false>},
        {"mig.mode.pending", mode<Q::nvmlDeviceGetMigMode, true>},
        {"gsp.mode.current", mode<Q::nvmlDeviceGetGspFirmwareMode, false>},
        {"gsp.mode.default", mode<Q::nvmlDeviceGetGspFirmwareMode, true>},
        {"c2c.mode", unanswered},
        {"protected_memory.total", mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::total>, "MiB"},
        {"protected_memory.used", mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::used>, "MiB"},
        {"protected_memory.free", mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::free>, "MiB"},
        {"fabric.state", unanswered},
        {"fabric.status", unanswered},
        {"hostname", unanswered},
    });
    return all;
}

// What -q shows and --query-gpu does not know.
Table properties_of_reports() {
    return {
        {"brand", brand},
        {"architecture", architecture},
        {"multi_gpu_board", yes<Q::nvmlDeviceGetMultiGpuBoard>},
        {"board_id", board},
        {"board_part_number", text<Q::nvmlDeviceGetBoardPartNumber>},
        {"module_id", count<Q::nvmlDeviceGetModuleId>},
        {"gsp_firmware", firmware},
        {"replays", count<Q::nvmlDeviceGetPcieReplayCounter>},
        {"bar1.total", mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::total>, "MiB"},
        {"bar1.used", mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::used>, "MiB"},
        {"bar1.free", mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::free>, "MiB"},
        {"temperature.shutdown", keyed<Q::nvmlDeviceGetTemperatureThreshold, 0>, "", "", " C"},
        {"temperature.slowdown", keyed<Q::nvmlDeviceGetTemperatureThreshold, 1>, "", "", " C"},
        {"temperature.max_memory", keyed<Q::nvmlDeviceGetTemperatureThreshold, 2>, "", "", " C"},
        {"temperature.max", keyed<Q::nvmlDeviceGetTemperatureThreshold, 3>, "", "", " C"},
        {"clocks.max.video", keyed<Q::nvmlDeviceGetMaxClockInfo, 3>, "MHz"},
        {"clocks.max_customer_boost.graphics", keyed<Q::nvmlDeviceGetMaxCustomerBoostClock, 0>, "MHz"},
    };
}

std::vector<ProcessProperty> properties_of_processes() {
    return {
        {"timestamp", [](const OfProcess& of) { return words(timestamp(of.gpu.at)); }},
        {"gpu_name", [](const OfProcess& of) { return text<Q::nvmlDeviceGetName>(of.gpu); }},
        {"gpu_bus_id", [](const OfProcess& of) { return bus_id(of.gpu); }},
        {"gpu_serial", [](const OfProcess& of) { return text<Q::nvmlDeviceGetSerial>(of.gpu); }},
        {"gpu_uuid", [](const OfProcess& of) { return text<Q::nvmlDeviceGetUUID>(of.gpu); }},
        {"pid", [](const OfProcess& of) { return words(std::to_string(of.process.pid)); }},
        {"process_name", [](const OfProcess& of) { return words(of.process.name); }, "", "name"},
        {"used_gpu_memory", [](const OfProcess& of) {
            return of.process.memory ? words(std::to_string(*of.process.memory >> 20)) : Value();
        }, "MiB", "used_memory"},
    };
}
// clang-format on

}  // namespace

std::span<const Property> gpu_properties() {
    static const Table all = properties_of_gpus();
    return all;
}
std::span<const Property> more_properties() {
    static const Table all = properties_of_reports();
    return all;
}
std::span<const ProcessProperty> process_properties() {
    static const std::vector<ProcessProperty> all = properties_of_processes();
    return all;
}

std::vector<GpuProcess> processes_of(const NvmlLibrary& nvml, Device device) {
    std::vector<ProcessInfo> infos(BARCUDA_MAX_PROCESSES);
    auto count = static_cast<unsigned>(infos.size());
    auto* running = nvml.symbol<Status(Device, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    if (!running || running(device, &count, infos.data()) != success) count = 0;
    std::vector<GpuProcess> all;
    for (const ProcessInfo& info : std::span(infos).first(count))
        all.push_back(
            {info.pid, program_of(info.pid),
             info.used_memory == value_not_available ? std::nullopt : std::optional<std::uint64_t>(info.used_memory)});
    return all;
}

}  // namespace barcuda::smi
