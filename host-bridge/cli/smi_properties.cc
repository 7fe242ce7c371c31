// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/smi_properties.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
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

// clang-format off
#define ECC(type, is_uncorrected, counter, is_aggregate)                                                             \
    {"ecc.errors." type "." counter ".device_memory", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 2>},        \
    {"ecc.errors." type "." counter ".dram", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 2>},                 \
    {"ecc.errors." type "." counter ".register_file", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 3>},        \
    {"ecc.errors." type "." counter ".l1_cache", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 0>},             \
    {"ecc.errors." type "." counter ".l2_cache", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 1>},             \
    {"ecc.errors." type "." counter ".texture_memory", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 4>},       \
    {"ecc.errors." type "." counter ".cbu", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 6>},                  \
    {"ecc.errors." type "." counter ".sram", 0, 0, 0, ecc_errors<is_uncorrected, is_aggregate, 7>},                 \
    {"ecc.errors." type "." counter ".total", 0, 0, 0, ecc_total<is_uncorrected, is_aggregate>},
#define REASON(name, bit) {"clocks_event_reasons." name, "clocks_throttle_reasons." name, 0, 0, reason<bit>},

constexpr Property of_gpus[] = {
    {"timestamp", 0, 0, 0, [](const GpuNow& g) { return words(timestamp(g.at)); }},
    {"driver_version", 0, 0, 0, [](const GpuNow& g) { return words(g.driver); }},
    {"count", 0, 0, 0, [](const GpuNow& g) { return number(std::optional(g.count)); }},
    {"name", "gpu_name", 0, 0, text<Q::nvmlDeviceGetName>},
    {"serial", "gpu_serial", 0, 0, text<Q::nvmlDeviceGetSerial>},
    {"uuid", "gpu_uuid", 0, 0, text<Q::nvmlDeviceGetUUID>},
    {"pci.bus_id", "gpu_bus_id", 0, 0, bus_id},
    {"pci.domain", 0, 0, 0, pci<&PciInfo::domain, 4>},
    {"pci.bus", 0, 0, 0, pci<&PciInfo::bus, 2>},
    {"pci.device", 0, 0, 0, pci<&PciInfo::device, 2>},
    {"pci.baseClass", 0, 0, 0, pci_class<&PciInfoExt::base_class>},
    {"pci.subClass", 0, 0, 0, pci_class<&PciInfoExt::sub_class>},
    {"pci.device_id", 0, 0, 0, pci<&PciInfo::device_id, 8>},
    {"pci.sub_device_id", 0, 0, 0, pci<&PciInfo::subsystem_id, 8>},
    {"pcie.link.gen.current", 0, 0, 0, count<Q::nvmlDeviceGetCurrPcieLinkGeneration>},
    {"pcie.link.gen.gpucurrent", 0, 0, 0, count<Q::nvmlDeviceGetCurrPcieLinkGeneration>},
    {"pcie.link.gen.max", 0, 0, 0, count<Q::nvmlDeviceGetMaxPcieLinkGeneration>},
    {"pcie.link.gen.gpumax", 0, 0, 0, count<Q::nvmlDeviceGetGpuMaxPcieLinkGeneration>},
    {"pcie.link.gen.hostmax", 0, 0, 0, 0},
    {"pcie.link.width.current", 0, 0, "x", count<Q::nvmlDeviceGetCurrPcieLinkWidth>},
    {"pcie.link.width.max", 0, 0, "x", count<Q::nvmlDeviceGetMaxPcieLinkWidth>},
    {"index", 0, 0, 0, [](const GpuNow& g) { return number(std::optional(g.index)); }},
    {"display_mode", 0, 0, 0, enabled<Q::nvmlDeviceGetDisplayMode>},
    {"display_attached", 0, 0, 0, 0},
    {"display_active", 0, 0, 0, enabled<Q::nvmlDeviceGetDisplayActive>},
    {"persistence_mode", 0, 0, 0, enabled<Q::nvmlDeviceGetPersistenceMode>},
    {"addressing_mode", 0, 0, 0, 0},
    {"accounting.mode", 0, 0, 0, 0},
    {"accounting.buffer_size", 0, 0, 0, 0},
    {"driver_model.current", 0, 0, 0, 0},
    {"driver_model.pending", 0, 0, 0, 0},
    {"vbios_version", 0, 0, 0, text<Q::nvmlDeviceGetVbiosVersion>},
    {"inforom.img", "inforom.image", 0, 0, text<Q::nvmlDeviceGetInforomImageVersion>},
    {"inforom.oem", 0, 0, 0, 0},
    {"inforom.ecc", 0, 0, 0, 0},
    {"inforom.pwr", "inforom.power", 0, 0, 0},
    {"inforom.checksum_validation", 0, 0, 0, 0},
    {"gpu_recovery_action", 0, 0, 0, 0},
    {"gom.current", "gpu_operation_mode.current", 0, 0, 0},
    {"gom.pending", "gpu_operation_mode.pending", 0, 0, 0},
    {"fan.speed", 0, "%", 0, count<Q::nvmlDeviceGetFanSpeed>},
    {"pstate", 0, 0, 0, performance_state},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", 0, 0,
        mask<Q::nvmlDeviceGetSupportedClocksEventReasons>},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", 0, 0,
        mask<Q::nvmlDeviceGetCurrentClocksEventReasons>},
    REASON("gpu_idle", 0x1)
    REASON("applications_clocks_setting", 0x2)
    REASON("sw_power_cap", 0x4)
    REASON("hw_slowdown", 0x8)
    REASON("hw_thermal_slowdown", 0x40)
    REASON("hw_power_brake_slowdown", 0x80)
    REASON("sw_thermal_slowdown", 0x20)
    REASON("sync_boost", 0x10)
    {"clocks_event_reasons_counters.sw_power_cap", 0, "us", 0, 0},
    {"clocks_event_reasons_counters.sync_boost", 0, "us", 0, 0},
    {"clocks_event_reasons_counters.sw_thermal_slowdown", 0, "us", 0, 0},
    {"clocks_event_reasons_counters.hw_thermal_slowdown", 0, "us", 0, 0},
    {"clocks_event_reasons_counters.hw_power_brake_slowdown", 0, "us", 0, 0},
    {"memory.total", 0, "MiB", 0, memory<MemoryPart::total>},
    {"memory.reserved", 0, "MiB", 0, memory<MemoryPart::reserved>},
    {"memory.used", 0, "MiB", 0, memory<MemoryPart::used>},
    {"memory.free", 0, "MiB", 0, memory<MemoryPart::free>},
    {"compute_mode", 0, 0, 0, compute_mode},
    {"compute_cap", 0, 0, 0, compute_capability},
    {"utilization.gpu", 0, "%", 0, utilization<&Utilization::gpu>},
    {"utilization.memory", 0, "%", 0, utilization<&Utilization::memory>},
    {"utilization.encoder", 0, "%", 0, busy<Q::nvmlDeviceGetEncoderUtilization>},
    {"utilization.decoder", 0, "%", 0, busy<Q::nvmlDeviceGetDecoderUtilization>},
    {"utilization.jpeg", 0, "%", 0, busy<Q::nvmlDeviceGetJpgUtilization>},
    {"utilization.ofa", 0, "%", 0, busy<Q::nvmlDeviceGetOfaUtilization>},
    {"encoder.stats.sessionCount", 0, 0, 0, 0},
    {"encoder.stats.averageFps", 0, 0, 0, 0},
    {"encoder.stats.averageLatency", 0, 0, 0, 0},
    {"dramEncryption.mode.current", 0, 0, 0, 0},
    {"dramEncryption.mode.pending", 0, 0, 0, 0},
    {"ecc.mode.current", 0, 0, 0, mode<Q::nvmlDeviceGetEccMode, false>},
    {"ecc.mode.pending", 0, 0, 0, mode<Q::nvmlDeviceGetEccMode, true>},
    ECC("corrected", 0, "volatile", 0)
    ECC("corrected", 0, "aggregate", 1)
    ECC("uncorrected", 1, "volatile", 0)
    ECC("uncorrected", 1, "aggregate", 1)
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", 0, 0, 0},
    {"retired_pages.double_bit.count", "retired_pages.dbe", 0, 0, 0},
    {"retired_pages.pending", 0, 0, 0, yes<Q::nvmlDeviceGetRetiredPagesPendingStatus>},
    {"remapped_rows.correctable", "remapped_rows.sbe", 0, 0, remapped<Row::correctable>},
    {"remapped_rows.uncorrectable", "remapped_rows.dbe", 0, 0, remapped<Row::uncorrectable>},
    {"remapped_rows.pending", 0, 0, 0, remapped<Row::pending>},
    {"remapped_rows.failure", 0, 0, 0, remapped<Row::failure>},
    {"remapped_rows.histogram.max", 0, 0, " bank(s)", banks<&RowRemapperHistogram::max>},
    {"remapped_rows.histogram.high", 0, 0, " bank(s)", banks<&RowRemapperHistogram::high>},
    {"remapped_rows.histogram.partial", 0, 0, " bank(s)", banks<&RowRemapperHistogram::partial>},
    {"remapped_rows.histogram.low", 0, 0, " bank(s)", banks<&RowRemapperHistogram::low>},
    {"remapped_rows.histogram.none", 0, 0, " bank(s)", banks<&RowRemapperHistogram::none>},
    {"temperature.gpu", 0, 0, " C", keyed<Q::nvmlDeviceGetTemperature, 0>},
    {"temperature.gpu.tlimit", 0, 0, " C", 0},
    {"temperature.memory", 0, 0, " C", of_field<memory_temperature>},
    {"power.management", 0, 0, 0, enabled<Q::nvmlDeviceGetPowerManagementMode>},
    {"power.draw", 0, "W", 0, watts<Q::nvmlDeviceGetPowerUsage>},
    {"power.draw.average", "gpu.power.draw.average", "W", 0, 0},
    {"power.draw.instant", "gpu.power.draw.instant", "W", 0, 0},
    {"power.limit", "gpu.power.requested_limit", "W", 0, watts<Q::nvmlDeviceGetPowerManagementLimit>},
    {"enforced.power.limit", "gpu.power.current_limit", "W", 0, watts<Q::nvmlDeviceGetEnforcedPowerLimit>},
    {"power.default_limit", "gpu.power.default_limit", "W", 0, watts<Q::nvmlDeviceGetPowerManagementDefaultLimit>},
    {"power.min_limit", "gpu.power.min_limit", "W", 0, power_bound<false>},
    {"power.max_limit", "gpu.power.max_limit", "W", 0, power_bound<true>},
    {"module.power.draw.average", 0, "W", 0, 0},
    {"module.power.draw.instant", 0, "W", 0, 0},
    {"module.power.limit", "module.power.requested_limit", "W", 0, 0},
    {"module.enforced.power.limit", "module.power.current_limit", "W", 0, 0},
    {"module.power.default_limit", 0, "W", 0, 0},
    {"module.power.min_limit", 0, "W", 0, 0},
    {"module.power.max_limit", 0, "W", 0, 0},
    {"edpp_multiplier", 0, "%", 0, 0},
    {"clocks.current.graphics", "clocks.gr", "MHz", 0, keyed<Q::nvmlDeviceGetClockInfo, 0>},
    {"clocks.current.sm", "clocks.sm", "MHz", 0, keyed<Q::nvmlDeviceGetClockInfo, 1>},
    {"clocks.current.memory", "clocks.mem", "MHz", 0, keyed<Q::nvmlDeviceGetClockInfo, 2>},
    {"clocks.current.video", "clocks.video", "MHz", 0, keyed<Q::nvmlDeviceGetClockInfo, 3>},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz", 0, keyed<Q::nvmlDeviceGetApplicationsClock, 0>},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz", 0, keyed<Q::nvmlDeviceGetApplicationsClock, 2>},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", 0,
        keyed<Q::nvmlDeviceGetDefaultApplicationsClock, 0>},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", 0,
        keyed<Q::nvmlDeviceGetDefaultApplicationsClock, 2>},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", 0, keyed<Q::nvmlDeviceGetMaxClockInfo, 0>},
    {"clocks.max.sm", 0, "MHz", 0, keyed<Q::nvmlDeviceGetMaxClockInfo, 1>},
    {"clocks.max.memory", "clocks.max.mem", "MHz", 0, keyed<Q::nvmlDeviceGetMaxClockInfo, 2>},
    {"mig.mode.current", 0, 0, 0, mode<Q::nvmlDeviceGetMigMode, false>},
    {"mig.mode.pending", 0, 0, 0, mode<Q::nvmlDeviceGetMigMode, true>},
    {"gsp.mode.current", 0, 0, 0, mode<Q::nvmlDeviceGetGspFirmwareMode, false>},
    {"gsp.mode.default", 0, 0, 0, mode<Q::nvmlDeviceGetGspFirmwareMode, true>},
    {"c2c.mode", 0, 0, 0, 0},
    {"protected_memory.total", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::total>},
    {"protected_memory.used", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::used>},
    {"protected_memory.free", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetConfComputeProtectedMemoryUsage, &Memory::free>},
    {"fabric.state", 0, 0, 0, 0},
    {"fabric.status", 0, 0, 0, 0},
    {"hostname", 0, 0, 0, 0},
};

// What -q shows and --query-gpu does not know.
constexpr Property of_reports[] = {
    {"brand", 0, 0, 0, brand},
    {"architecture", 0, 0, 0, architecture},
    {"multi_gpu_board", 0, 0, 0, yes<Q::nvmlDeviceGetMultiGpuBoard>},
    {"board_id", 0, 0, 0, board},
    {"board_part_number", 0, 0, 0, text<Q::nvmlDeviceGetBoardPartNumber>},
    {"module_id", 0, 0, 0, count<Q::nvmlDeviceGetModuleId>},
    {"gsp_firmware", 0, 0, 0, firmware},
    {"replays", 0, 0, 0, count<Q::nvmlDeviceGetPcieReplayCounter>},
    {"bar1.total", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::total>},
    {"bar1.used", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::used>},
    {"bar1.free", 0, "MiB", 0, mebibytes<Q::nvmlDeviceGetBAR1MemoryInfo, &Memory::free>},
    {"temperature.shutdown", 0, 0, " C", keyed<Q::nvmlDeviceGetTemperatureThreshold, 0>},
    {"temperature.slowdown", 0, 0, " C", keyed<Q::nvmlDeviceGetTemperatureThreshold, 1>},
    {"temperature.max_memory", 0, 0, " C", keyed<Q::nvmlDeviceGetTemperatureThreshold, 2>},
    {"temperature.max", 0, 0, " C", keyed<Q::nvmlDeviceGetTemperatureThreshold, 3>},
    {"clocks.max.video", 0, "MHz", 0, keyed<Q::nvmlDeviceGetMaxClockInfo, 3>},
    {"clocks.max_customer_boost.graphics", 0, "MHz", 0, keyed<Q::nvmlDeviceGetMaxCustomerBoostClock, 0>},
};

constexpr ProcessProperty of_processes[] = {
    {"timestamp", 0, 0, [](const OfProcess& of) { return words(timestamp(of.gpu.at)); }},
    {"gpu_name", 0, 0, [](const OfProcess& of) { return text<Q::nvmlDeviceGetName>(of.gpu); }},
    {"gpu_bus_id", 0, 0, [](const OfProcess& of) { return bus_id(of.gpu); }},
    {"gpu_serial", 0, 0, [](const OfProcess& of) { return text<Q::nvmlDeviceGetSerial>(of.gpu); }},
    {"gpu_uuid", 0, 0, [](const OfProcess& of) { return text<Q::nvmlDeviceGetUUID>(of.gpu); }},
    {"pid", 0, 0, [](const OfProcess& of) { return words(std::to_string(of.process.pid)); }},
    {"process_name", "name", 0, [](const OfProcess& of) { return words(of.process.name); }},
    {"used_gpu_memory", "used_memory", "MiB",
        [](const OfProcess& of) {
            return of.process.memory ? words(std::to_string(*of.process.memory >> 20)) : Value();
        }},
};
// clang-format on
#undef ECC
#undef REASON

}  // namespace

std::span<const Property> gpu_properties() { return of_gpus; }
std::span<const Property> more_properties() { return of_reports; }
std::span<const ProcessProperty> process_properties() { return of_processes; }

std::string program_of(unsigned pid) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", pid)), name, '\0');
    return name.empty() ? "?" : printable(name);
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
