// SPDX-License-Identifier: Apache-2.0
// smi_query.h: what scripts and monitoring agents ask nvidia-smi, answered from an NVML in its form: -L, -q as text or
// XML, --query-gpu and --query-compute-apps as CSV, and which properties these two know.
#pragma once
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/cli/smi_properties.h"

namespace barcuda::smi {

struct Csv {
    bool header = true, units = true;
};
// What --format says: csv, and noheader or nounits.
Failure parse_format(const std::string& format, Csv& csv);
// The properties, by their names, which a comma parts. A failure: one of them is none.
Failure print_gpus(const std::vector<GpuNow>& gpus, const std::string& properties, const Csv& csv);
Failure print_processes(const std::vector<GpuNow>& gpus, const std::string& properties, const Csv& csv);
// The properties that there are, as --help-query-gpu and --help-query-compute-apps list them.
void print_gpu_properties();
void print_process_properties();

void print_list(const std::vector<GpuNow>& gpus);
// `sections`: of those that -d names, separated by commas; empty: all.
void print_report(const std::vector<GpuNow>& gpus, const std::string& sections);
void print_xml(const std::vector<GpuNow>& gpus);
// The versions of this program, of NVML, of the driver and of CUDA.
void print_versions(const nvml::NvmlLibrary& library, const std::string& driver, int cuda);

}  // namespace barcuda::smi
