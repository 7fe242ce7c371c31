// SPDX-License-Identifier: Apache-2.0
// smi_query.cc: prints properties as CSV, as the text of -q and as XML. The forms are those of nvidia-smi(1): what NVML
// does not answer here is "[N/A]" in CSV and "N/A" elsewhere, as natively.
#include "host-bridge/cli/smi_query.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "shm-device/cuda/version.h"

namespace barcuda::smi {
namespace {

// clang-format off
// A line of -q. `tag`: its element in XML, nvsmi_device_v12's; `section`: the word of -d that selects it.
struct AnswerLine {
    int depth;
    const char *label, *tag, *property, *section;
};
constexpr const char* heading = nullptr;  // in the place of a property: of the deeper lines behind it
constexpr const char* never = "";         // ... or one that NVML does not answer
constexpr const char* unnamed = nullptr;  // -d has no word for it
constexpr AnswerLine lines[] = {
    {1, "Product Name", "product_name", "name", unnamed},
    {1, "Product Brand", "product_brand", "brand", unnamed},
    {1, "Product Architecture", "product_architecture", "architecture", unnamed},
    {1, "Display Mode", "display_mode", "display_mode", unnamed},
    {1, "Display Active", "display_active", "display_active", unnamed},
    {1, "Persistence Mode", "persistence_mode", "persistence_mode", unnamed},
    {1, "Addressing Mode", "addressing_mode", never, unnamed},
    {1, "MIG Mode", "mig_mode", heading, unnamed},
    {2, "Current", "current_mig", "mig.mode.current", unnamed},
    {2, "Pending", "pending_mig", "mig.mode.pending", unnamed},
    {1, "Accounting Mode", "accounting_mode", never, "ACCOUNTING"},
    {1, "Accounting Mode Buffer Size", "accounting_mode_buffer_size", never, "ACCOUNTING"},
    {1, "Serial Number", "serial", "serial", unnamed},
    {1, "GPU UUID", "uuid", "uuid", unnamed},
    {1, "Minor Number", "minor_number", never, unnamed},
    {1, "VBIOS Version", "vbios_version", "vbios_version", unnamed},
    {1, "MultiGPU Board", "multigpu_board", "multi_gpu_board", unnamed},
    {1, "Board ID", "board_id", "board_id", unnamed},
    {1, "Board Part Number", "board_part_number", "board_part_number", unnamed},
    {1, "Module ID", "gpu_module_id", "module_id", unnamed},
    {1, "Inforom Version", "inforom_version", heading, unnamed},
    {2, "Image Version", "img_version", "inforom.img", unnamed},
    {2, "OEM Object", "oem_object", never, unnamed},
    {2, "ECC Object", "ecc_object", never, unnamed},
    {2, "Power Management Object", "pwr_object", never, unnamed},
    {1, "GSP Firmware Version", "gsp_firmware_version", "gsp_firmware", "GSP_FIRMWARE_VERSION"},
    {1, "PCI", "pci", heading, unnamed},
    {2, "Bus", "pci_bus", "pci.bus", unnamed},
    {2, "Device", "pci_device", "pci.device", unnamed},
    {2, "Domain", "pci_domain", "pci.domain", unnamed},
    {2, "Device Id", "pci_device_id", "pci.device_id", unnamed},
    {2, "Bus Id", "pci_bus_id", "pci.bus_id", unnamed},
    {2, "Sub System Id", "pci_sub_system_id", "pci.sub_device_id", unnamed},
    {2, "GPU Link Info", "pci_gpu_link_info", heading, unnamed},
    {3, "PCIe Generation", "pcie_gen", heading, unnamed},
    {4, "Max", "max_link_gen", "pcie.link.gen.max", unnamed},
    {4, "Current", "current_link_gen", "pcie.link.gen.current", unnamed},
    {4, "Device Current", "device_current_link_gen", "pcie.link.gen.gpucurrent", unnamed},
    {4, "Device Max", "max_device_link_gen", "pcie.link.gen.gpumax", unnamed},
    {4, "Host Max", "max_host_link_gen", never, unnamed},
    {3, "Link Width", "link_widths", heading, unnamed},
    {4, "Max", "max_link_width", "pcie.link.width.max", unnamed},
    {4, "Current", "current_link_width", "pcie.link.width.current", unnamed},
    {2, "Replays Since Reset", "replay_counter", "replays", unnamed},
    {2, "Tx Throughput", "tx_util", never, unnamed},
    {2, "Rx Throughput", "rx_util", never, unnamed},
    {1, "Fan Speed", "fan_speed", "fan.speed", unnamed},
    {1, "Performance State", "performance_state", "pstate", "PERFORMANCE"},
    {1, "Clocks Event Reasons", "clocks_event_reasons", heading, "PERFORMANCE"},
    {2, "Idle", "clocks_event_reason_gpu_idle", "clocks_event_reasons.gpu_idle", unnamed},
    {2, "Applications Clocks Setting", "clocks_event_reason_applications_clocks_setting",
        "clocks_event_reasons.applications_clocks_setting", unnamed},
    {2, "SW Power Cap", "clocks_event_reason_sw_power_cap", "clocks_event_reasons.sw_power_cap", unnamed},
    {2, "HW Slowdown", "clocks_event_reason_hw_slowdown", "clocks_event_reasons.hw_slowdown", unnamed},
    {2, "HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown",
        "clocks_event_reasons.hw_thermal_slowdown", unnamed},
    {2, "HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown",
        "clocks_event_reasons.hw_power_brake_slowdown", unnamed},
    {2, "Sync Boost", "clocks_event_reason_sync_boost", "clocks_event_reasons.sync_boost", unnamed},
    {2, "SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown",
        "clocks_event_reasons.sw_thermal_slowdown", unnamed},
    {1, "FB Memory Usage", "fb_memory_usage", heading, "MEMORY"},
    {2, "Total", "total", "memory.total", unnamed},
    {2, "Reserved", "reserved", "memory.reserved", unnamed},
    {2, "Used", "used", "memory.used", unnamed},
    {2, "Free", "free", "memory.free", unnamed},
    {1, "BAR1 Memory Usage", "bar1_memory_usage", heading, "MEMORY"},
    {2, "Total", "total", "bar1.total", unnamed},
    {2, "Used", "used", "bar1.used", unnamed},
    {2, "Free", "free", "bar1.free", unnamed},
    {1, "Conf Compute Protected Memory Usage", "cc_protected_memory_usage", heading, "MEMORY"},
    {2, "Total", "total", "protected_memory.total", unnamed},
    {2, "Used", "used", "protected_memory.used", unnamed},
    {2, "Free", "free", "protected_memory.free", unnamed},
    {1, "Compute Mode", "compute_mode", "compute_mode", "COMPUTE"},
    {1, "Utilization", "utilization", heading, "UTILIZATION"},
    {2, "GPU", "gpu_util", "utilization.gpu", unnamed},
    {2, "Memory", "memory_util", "utilization.memory", unnamed},
    {2, "Encoder", "encoder_util", "utilization.encoder", unnamed},
    {2, "Decoder", "decoder_util", "utilization.decoder", unnamed},
    {2, "JPEG", "jpeg_util", "utilization.jpeg", unnamed},
    {2, "OFA", "ofa_util", "utilization.ofa", unnamed},
    {1, "Encoder Stats", "encoder_stats", heading, "ENCODER_STATS"},
    {2, "Active Sessions", "session_count", never, unnamed},
    {2, "Average FPS", "average_fps", never, unnamed},
    {2, "Average Latency", "average_latency", never, unnamed},
    {1, "FBC Stats", "fbc_stats", heading, "FBC_STATS"},
    {2, "Active Sessions", "session_count", never, unnamed},
    {2, "Average FPS", "average_fps", never, unnamed},
    {2, "Average Latency", "average_latency", never, unnamed},
    {1, "ECC Mode", "ecc_mode", heading, "ECC"},
    {2, "Current", "current_ecc", "ecc.mode.current", unnamed},
    {2, "Pending", "pending_ecc", "ecc.mode.pending", unnamed},
    {1, "ECC Errors", "ecc_errors", heading, "ECC"},
    {2, "Volatile", "volatile", heading, unnamed},
    {3, "SRAM Correctable", "sram_correctable", "ecc.errors.corrected.volatile.sram", unnamed},
    {3, "SRAM Uncorrectable", "sram_uncorrectable", "ecc.errors.uncorrected.volatile.sram", unnamed},
    {3, "DRAM Correctable", "dram_correctable", "ecc.errors.corrected.volatile.dram", unnamed},
    {3, "DRAM Uncorrectable", "dram_uncorrectable", "ecc.errors.uncorrected.volatile.dram", unnamed},
    {2, "Aggregate", "aggregate", heading, unnamed},
    {3, "SRAM Correctable", "sram_correctable", "ecc.errors.corrected.aggregate.sram", unnamed},
    {3, "SRAM Uncorrectable", "sram_uncorrectable", "ecc.errors.uncorrected.aggregate.sram", unnamed},
    {3, "DRAM Correctable", "dram_correctable", "ecc.errors.corrected.aggregate.dram", unnamed},
    {3, "DRAM Uncorrectable", "dram_uncorrectable", "ecc.errors.uncorrected.aggregate.dram", unnamed},
    {1, "Retired Pages", "retired_pages", heading, "PAGE_RETIREMENT"},
    {2, "Single Bit ECC", "single_bit", never, unnamed},
    {2, "Double Bit ECC", "double_bit", never, unnamed},
    {2, "Pending Page Blacklist", "pending_retirement", "retired_pages.pending", unnamed},
    {1, "Remapped Rows", "remapped_rows", heading, "ROW_REMAPPER"},
    {2, "Correctable Error", "remapped_row_corr", "remapped_rows.correctable", unnamed},
    {2, "Uncorrectable Error", "remapped_row_unc", "remapped_rows.uncorrectable", unnamed},
    {2, "Pending", "remapped_row_pending", "remapped_rows.pending", unnamed},
    {2, "Remapping Failure Occurred", "remapped_row_failure", "remapped_rows.failure", unnamed},
    {1, "Temperature", "temperature", heading, "TEMPERATURE"},
    {2, "GPU Current Temp", "gpu_temp", "temperature.gpu", unnamed},
    {2, "GPU Shutdown Temp", "gpu_temp_max_threshold", "temperature.shutdown", unnamed},
    {2, "GPU Slowdown Temp", "gpu_temp_slow_threshold", "temperature.slowdown", unnamed},
    {2, "GPU Max Operating Temp", "gpu_temp_max_gpu_threshold", "temperature.max", unnamed},
    {2, "Memory Current Temp", "memory_temp", "temperature.memory", unnamed},
    {2, "Memory Max Operating Temp", "gpu_temp_max_mem_threshold", "temperature.max_memory", unnamed},
    {1, "GPU Power Readings", "gpu_power_readings", heading, "POWER"},
    {2, "Power State", "power_state", "pstate", unnamed},
    {2, "Power Draw", "power_draw", "power.draw", unnamed},
    {2, "Current Power Limit", "current_power_limit", "enforced.power.limit", unnamed},
    {2, "Requested Power Limit", "requested_power_limit", "power.limit", unnamed},
    {2, "Default Power Limit", "default_power_limit", "power.default_limit", unnamed},
    {2, "Min Power Limit", "min_power_limit", "power.min_limit", unnamed},
    {2, "Max Power Limit", "max_power_limit", "power.max_limit", unnamed},
    {1, "Clocks", "clocks", heading, "CLOCK"},
    {2, "Graphics", "graphics_clock", "clocks.current.graphics", unnamed},
    {2, "SM", "sm_clock", "clocks.current.sm", unnamed},
    {2, "Memory", "mem_clock", "clocks.current.memory", unnamed},
    {2, "Video", "video_clock", "clocks.current.video", unnamed},
    {1, "Applications Clocks", "applications_clocks", heading, "CLOCK"},
    {2, "Graphics", "graphics_clock", "clocks.applications.graphics", unnamed},
    {2, "Memory", "mem_clock", "clocks.applications.memory", unnamed},
    {1, "Max Clocks", "max_clocks", heading, "CLOCK"},
    {2, "Graphics", "graphics_clock", "clocks.max.graphics", unnamed},
    {2, "SM", "sm_clock", "clocks.max.sm", unnamed},
    {2, "Memory", "mem_clock", "clocks.max.memory", unnamed},
    {2, "Video", "video_clock", "clocks.max.video", unnamed},
    {1, "Max Customer Boost Clocks", "max_customer_boost_clocks", heading, "CLOCK"},
    {2, "Graphics", "graphics_clock", "clocks.max_customer_boost.graphics", unnamed},
};

// clang-format on

std::vector<std::string> parts(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string one; std::getline(in, one, ',');) {
        const auto first = one.find_first_not_of(' ');
        if (first != std::string::npos) all.push_back(one.substr(first, one.find_last_not_of(' ') - first + 1));
    }
    return all;
}

template <class Row> const Row* find(std::span<const Row> rows, std::string_view name) {
    for (const Row& row : rows)
        if (name == row.name || (!row.alias.empty() && name == row.alias)) return &row;
    return nullptr;
}

// The rows that these names mean.
template <class Row>
Failure chosen(std::span<const Row> rows, const std::string& names, std::vector<const Row*>& found) {
    for (const std::string& name : parts(names)) {
        found.push_back(find(rows, name));
        if (!found.back()) return fmt::format("Field \"{}\" is not a valid field to query.", name);
    }
    if (found.empty()) return "No field is named to query.";
    return {};
}

template <class Row> void print_header(const std::vector<const Row*>& rows) {
    std::string line;
    for (const Row* row : rows) {
        if (!line.empty()) line += ", ";
        line += row->name;
        if (!row->unit.empty()) line += fmt::format(" [{}]", row->unit);
    }
    fmt::print("{}\n", line);
}

template <class Row, class Of> void print_row(const std::vector<const Row*>& rows, const Of& of, bool units) {
    std::string line;
    for (const Row* row : rows) {
        if (row != rows.front()) line += ", ";
        const Value value = row->answer(of);
        line += value.value_or("[N/A]");
        if (value && units && !row->unit.empty()) line += fmt::format(" {}", row->unit);
    }
    fmt::print("{}\n", line);
}

template <class Row> void print_properties(const char* option, std::span<const Row> rows) {
    fmt::print("List of valid properties to query for the switch \"{}\":\n", option);
    for (const Row& row : rows) {
        fmt::print("\n\"{}\"", row.name);
        if (!row.alias.empty()) fmt::print(" or \"{}\"", row.alias);
        if (!row.unit.empty()) fmt::print("\nIn {}.", row.unit);
        fmt::print("\n");
    }
}

// The value of a line of -q, with its unit.
std::string shown(const GpuNow& gpu, const char* name) {
    const Property* row = find(gpu_properties(), name);
    if (!row) row = find(more_properties(), name);
    const Value value = row ? row->answer(gpu) : Value();
    if (!value) return "N/A";
    return *value + (row->unit.empty() ? "" : " " + row->unit) + row->shown;
}

bool has_word(const std::string& list, std::string_view word) {
    for (std::string one : parts(list)) {
        std::ranges::transform(one, one.begin(), [](unsigned char c) { return std::toupper(c); });
        if (one == word) return true;
    }
    return false;
}

std::string date(const timespec& at) { return fmt::format("{:%a %b %e %H:%M:%S %Y}", fmt::localtime(at.tv_sec)); }
void say(int depth, const std::string& label, const std::string& value) {
    fmt::print("{:<55}: {}\n", std::string(static_cast<std::size_t>(depth) * 4, ' ') + label, value);
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&') out += "&amp;";
        else if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else out += c;
    }
    return out;
}
void element(int depth, const char* tag, const std::string& value) {
    fmt::print("{0:{1}}<{2}>{3}</{2}>\n", "", depth * 4, tag, escaped(value));
}
// Numbers of the bus have no 0x in XML.
std::string in_xml(const char* tag, const std::string& value) {
    return std::string_view(tag).starts_with("pci_") && value.starts_with("0x") ? value.substr(2) : value;
}

void print_gpu_xml(const GpuNow& gpu) {
    fmt::print("    <gpu id=\"{}\">\n", escaped(shown(gpu, "pci.bus_id")));
    std::vector<const AnswerLine*> open;
    const auto close_to = [&](int depth) {
        for (; !open.empty() && open.back()->depth >= depth; open.pop_back())
            fmt::print("{:{}}</{}>\n", "", (open.back()->depth + 1) * 4, open.back()->tag);
    };
    for (const AnswerLine& line : lines) {
        close_to(line.depth);
        if (line.property != heading) element(line.depth + 1, line.tag, in_xml(line.tag, shown(gpu, line.property)));
        else {
            fmt::print("{:{}}<{}>\n", "", (line.depth + 1) * 4, line.tag);
            open.push_back(&line);
        }
    }
    close_to(0);
    fmt::print("        <processes>\n");
    for (const GpuProcess& p : processes_of(gpu.nvml, gpu.device)) {
        fmt::print("            <process_info>\n");
        element(4, "gpu_instance_id", "N/A");
        element(4, "compute_instance_id", "N/A");
        element(4, "pid", std::to_string(p.pid));
        element(4, "type", "C");
        element(4, "process_name", p.name);
        element(4, "used_memory", p.memory ? fmt::format("{} MiB", *p.memory >> 20) : "N/A");
        fmt::print("            </process_info>\n");
    }
    fmt::print("        </processes>\n    </gpu>\n");
}

}  // namespace

Failure parse_format(const std::string& format, Csv& csv) {
    bool is_csv = false;
    for (const std::string& word : parts(format)) {
        if (word == "csv") is_csv = true;
        else if (word == "noheader") csv.header = false;
        else if (word == "nounits") csv.units = false;
        else return fmt::format("--format={}: \"{}\" is none of csv, noheader, nounits", format, word);
    }
    if (!is_csv) return "--format=csv is needed with --query-gpu and --query-compute-apps";
    return {};
}

Failure print_gpus(const std::vector<GpuNow>& gpus, const std::string& properties, const Csv& csv) {
    std::vector<const Property*> rows;
    if (Failure e = chosen(gpu_properties(), properties, rows)) return e;
    if (csv.header) print_header(rows);
    for (const GpuNow& gpu : gpus) print_row(rows, gpu, csv.units);
    return {};
}

Failure print_processes(const std::vector<GpuNow>& gpus, const std::string& properties, const Csv& csv) {
    std::vector<const ProcessProperty*> rows;
    if (Failure e = chosen(process_properties(), properties, rows)) return e;
    if (csv.header) print_header(rows);
    for (const GpuNow& gpu : gpus)
        for (const GpuProcess& process : processes_of(gpu.nvml, gpu.device))
            print_row(rows, OfProcess{gpu, process}, csv.units);
    return {};
}

void print_gpu_properties() { print_properties("--query-gpu", gpu_properties()); }
void print_process_properties() { print_properties("--query-compute-apps", process_properties()); }

void print_list(const std::vector<GpuNow>& gpus) {
    for (const GpuNow& gpu : gpus)
        fmt::print("GPU {}: {} (UUID: {})\n", gpu.index, shown(gpu, "name"), shown(gpu, "uuid"));
}

void print_report(const std::vector<GpuNow>& gpus, const std::string& sections) {
    if (gpus.empty()) return;
    fmt::print("\n==============NVSMI LOG==============\n\n");
    say(0, "Timestamp", date(gpus[0].at));
    say(0, "Driver Version", gpus[0].driver);
    say(0, "CUDA Version", cuda_version_text(gpus[0].cuda));
    fmt::print("\n");
    say(0, "Attached GPUs", std::to_string(gpus[0].count));
    for (const GpuNow& gpu : gpus) {
        fmt::print("GPU {}\n", shown(gpu, "pci.bus_id"));
        bool wanted = true;
        for (const AnswerLine& line : lines) {
            if (line.depth == 1) wanted = sections.empty() || (line.section && has_word(sections, line.section));
            if (!wanted) continue;
            if (line.property != heading) say(line.depth, line.label, shown(gpu, line.property));
            else fmt::print("{:{}}{}\n", "", line.depth * 4, line.label);
        }
        if (!sections.empty() && !has_word(sections, "PIDS")) continue;
        const auto processes = processes_of(gpu.nvml, gpu.device);
        if (processes.empty()) say(1, "Processes", "None");
        else fmt::print("    Processes\n");
        for (const GpuProcess& p : processes) {
            say(2, "GPU instance ID", "N/A");
            say(2, "Compute instance ID", "N/A");
            say(2, "Process ID", std::to_string(p.pid));
            say(3, "Type", "C");
            say(3, "Name", p.name);
            say(3, "Used GPU Memory", p.memory ? fmt::format("{} MiB", *p.memory >> 20) : "N/A");
        }
    }
    fmt::print("\n");
}

void print_xml(const std::vector<GpuNow>& gpus) {
    if (gpus.empty()) return;
    fmt::print(
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n");
    element(1, "timestamp", date(gpus[0].at));
    element(1, "driver_version", gpus[0].driver);
    element(1, "cuda_version", cuda_version_text(gpus[0].cuda));
    element(1, "attached_gpus", std::to_string(gpus[0].count));
    for (const GpuNow& gpu : gpus) print_gpu_xml(gpu);
    fmt::print("</nvidia_smi_log>\n");
}

void print_versions(const nvml::NvmlLibrary& library, const std::string& driver, int cuda) {
    fmt::print("NVIDIA-SMI version  : {}\n", driver);
    fmt::print("NVML version        : {}\n", library.text<nvml::Question::nvmlSystemGetNVMLVersion>());
    fmt::print("DRIVER version      : {}\n", driver);
    fmt::print("CUDA Version        : {}\n", cuda_version_text(cuda));
}

}  // namespace barcuda::smi
