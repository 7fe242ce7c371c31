// SPDX-License-Identifier: Apache-2.0
// smi_properties.h: one table of what `barcuda smi` can be asked of a GPU, and one of what of a process: names, units,
// answers. Names and units are those of `nvidia-smi --help-query-gpu`.
#pragma once
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host-bridge/cli/nvml_library.h"

namespace barcuda::smi {

struct GpuProcess {
    unsigned pid;
    std::string name;
    std::optional<std::uint64_t> memory;  // bytes
    bool paused = false;                  // by the host (barcuda pause)
};
std::string program_of(unsigned pid);
std::vector<GpuProcess> processes_of(const nvml::NvmlLibrary& nvml, nvml::Device device);

// One GPU at one moment.
struct GpuNow {
    const nvml::NvmlLibrary& nvml;
    nvml::Device device;
    unsigned index, count;  // of all GPUs
    std::string driver;
    int cuda;  // 13000 is 13.0
    timespec at;
};
struct OfProcess {
    const GpuNow& gpu;
    const GpuProcess& process;
};

using Value = std::optional<std::string>;  // none: NVML does not answer that here
template <class Of> using Answer = Value (*)(const Of& of);
// NVML does not answer that here.
template <class Of> Value unanswered(const Of&) { return {}; }
// Texts may be empty.
struct Property {
    std::string name;
    Answer<GpuNow> answer;
    std::string unit{}, alias{};  // unit: in CSV and in -q
    std::string shown{};          // what follows the value in -q alone
};
struct ProcessProperty {
    std::string name;
    Answer<OfProcess> answer;
    std::string unit{}, alias{};
};

std::span<const Property> gpu_properties();
std::span<const Property> more_properties();  // what -q shows and --query-gpu does not know
std::span<const ProcessProperty> process_properties();

}  // namespace barcuda::smi
