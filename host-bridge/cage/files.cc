// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cage/files.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "shm-device/cuda/libraries.h"

namespace barcuda::cage {
namespace {

// Prefixes of names in /dev.
constexpr std::string_view software_devices[] = {"null", "zero", "full", "random", "urandom"},
                           gpu_devices[] = {"nvidia", "dxg"};

void add_list(std::vector<Shown>& all, const char* folders) {
    std::istringstream in(folders ? folders : "");
    for (std::string folder; std::getline(in, folder, ':');)
        if (folder.size() > 1 && folder.front() == '/') all.push_back({folder, Access::read});
}

bool may_write(const std::string& folder, const Order& order) {
    struct stat st;
    if (stat(folder.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return false;
    if (!order.has(Measure::user)) return true;  // the bridge's user
    const auto* const groups = order.groups.data();
    return st.st_uid == order.user || (st.st_mode & S_IWOTH) ||
           (st.st_mode & S_IWGRP &&
            std::find(groups, groups + order.group_count, st.st_gid) != groups + order.group_count);
}

}  // namespace

std::string cache_of_code() {
    const char *const cache = getenv("CUDA_CACHE_PATH"), *const home = getenv("HOME");
    const std::string path = cache ? cache : home ? std::string(home) + "/.nv" : "";
    return path.starts_with('/') ? path : "";
}

std::vector<Shown> shown_files(const Order& order, const std::string& library) {
    std::vector<Shown> all;
    for (const char* path : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime",
                             "/sys/devices/system/cpu", toolkit_libraries})
        all.push_back({path, Access::read});
    if (const std::size_t name = library.rfind('/'); name != library.npos && name > 0) {
        all.push_back({library.substr(0, name), Access::read});
        all.push_back({library, Access::read});
    }
    add_list(all, getenv("LD_LIBRARY_PATH"));
    add_list(all, getenv(more_files));
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator("/dev", failed)) {
        const std::string name = entry.path().filename();
        const auto begins = [&](std::string_view with) { return name.starts_with(with); };
        if (std::ranges::find(software_devices, name) != std::end(software_devices) ||
            (!order.software && std::ranges::any_of(gpu_devices, begins)))
            all.push_back({entry.path(), Access::use});
    }
    if (order.software) return all;
    for (const char* path : {"/opt", "/etc/nvidia", "/sys/devices", "/sys/bus/pci", "/sys/module", "/sys/kernel/mm",
                             "/run/nvidia-persistenced", "/var/run/nvidia-persistenced"})
        all.push_back({path, Access::read});
    const char* const mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
    all.push_back({mps ? mps : "/tmp/nvidia-mps", Access::read});
    if (const std::string cache = cache_of_code(); !cache.empty())
        all.push_back({cache, may_write(cache, order) ? Access::change : Access::change_own});
    return all;
}

std::vector<std::string> mapped_files() {
    std::vector<std::string> all;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        // A library has an executable mapping; a region has none.
        const std::size_t path = line.find('/'), rights = line.find(' ') + 1;
        if (path != line.npos && line.compare(rights, 4, "r-xp") == 0 && !line.ends_with(" (deleted)"))
            all.push_back(line.substr(path));
    }
    return all;
}

}  // namespace barcuda::cage
