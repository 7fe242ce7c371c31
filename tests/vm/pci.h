// SPDX-License-Identifier: Apache-2.0
// pci.h: the PCI device behind the module's node, for tests that take it away and bring it back (root).
#pragma once
#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

namespace barcuda::vm {

// "/dev/uioN" of the PCI device; empty if there is none now. The kernel makes the node last.
inline std::string pci_node() {
    std::string found;
    DIR* dir = opendir("/sys/class/uio");
    while (const dirent* entry = dir ? readdir(dir) : nullptr) {
        const std::string name = entry->d_name;
        std::ifstream file("/sys/class/uio/" + name + "/name");
        std::string kind;
        if (file >> kind && kind == "barcuda" &&
            access(("/sys/class/uio/" + name + "/device/vendor").c_str(), F_OK) == 0 &&
            access(("/dev/" + name).c_str(), F_OK) == 0)
            found = "/dev/" + name;
    }
    if (dir) closedir(dir);
    return found;
}

// Its folder in /sys.
inline std::string pci_device() {
    char path[PATH_MAX];
    return realpath(("/sys/class/uio/" + pci_node().substr(5) + "/device").c_str(), path) ? path : "";
}

inline bool write_one(const std::string& path) {
    std::ofstream file(path);
    return static_cast<bool>(file << 1 << std::flush);
}

inline bool unplug() { return write_one(pci_device() + "/remove"); }
inline bool rescan() { return write_one("/sys/bus/pci/rescan"); }

}  // namespace barcuda::vm
