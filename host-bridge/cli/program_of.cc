// SPDX-License-Identifier: Apache-2.0
// program_of.cc: the program that a process runs.
#include <fmt/format.h>

#include <fstream>

#include "host-bridge/cli/smi_properties.h"

namespace barcuda::smi {

std::string program_of(unsigned pid) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", pid)), name, '\0');
    return name.empty() ? "?" : nvml::printable(name);
}

}  // namespace barcuda::smi
