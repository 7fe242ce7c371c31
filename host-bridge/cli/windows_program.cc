// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/windows_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "host-bridge/cli/vm_parts.h"

namespace barcuda::windows {
namespace {

// A path of this system, as Wine's programs know it.
std::string at(std::string path) {
    std::ranges::replace(path, '/', '\\');
    return "Z:" + path;
}

void prepend(const char* variable, const std::string& value) {
    const char* const before = getenv(variable);
    setenv(variable, before && *before ? (value + ";" + before).c_str() : value.c_str(), 1);
}

}  // namespace

std::string check(const Installation& here) {
    if (const Failure lacks = parts::missing({{"wine", "wine64 wine"}})) return lacks.text();
    const std::string driver = here.windows + "/nvcuda.dll";
    return access(driver.c_str(), R_OK) == 0 ? "" : driver + " is missing: run make windows in Barcuda's sources";
}

void put_in_front(const Installation& here, const std::string& region) {
    setenv("BARCUDA_REGION", at(region).c_str(), 1);
    prepend("WINEPATH", at(here.windows));
    prepend("WINEDLLOVERRIDES", "nvcuda,nvml,cudart64_12,cudart64_13=n");  // Wine may have libraries of these names
}

}  // namespace barcuda::windows
