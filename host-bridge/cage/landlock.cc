// SPDX-License-Identifier: Apache-2.0
// landlock.cc: which files the software GPU's worker sees: those that its start reads, until the filter of system
// calls lets it open none at all. Landlock holds for the calling thread and those that it starts, so it comes before
// the driver's threads. It also keeps the worker from tracing and signalling processes outside (as far as the kernel
// knows how).
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <sstream>

#include "host-bridge/cage/measures.h"
#include "host-bridge/message.h"
#include "shm-device/libraries.h"

namespace barcuda::cage {
namespace {

// As of ABI 6; an older kernel is given as much of it as it knows, an older header need not know it.
struct Ruleset {
    std::uint64_t files, network, scopes;
};
constexpr std::uint64_t truncate = 1 << 14, ioctl_of_devices = 1 << 15, bind_and_connect = 3, sockets_and_signals = 3;
constexpr std::uint64_t to_read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

Ruleset known_to(long abi) {
    Ruleset r{(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1, 0, 0};
    if (abi >= 2) r.files |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3) r.files |= truncate;
    if (abi >= 4) r.network = bind_and_connect;
    if (abi >= 5) r.files |= ioctl_of_devices;
    if (abi >= 6) r.scopes = sockets_and_signals;
    return r;
}

}  // namespace

bool restrict_files(const Order&, const std::string& library) {
    const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) return false;
    const Ruleset ruleset = known_to(abi);
    const std::size_t size = abi >= 6   ? sizeof ruleset
                             : abi >= 4 ? offsetof(Ruleset, scopes)
                                        : offsetof(Ruleset, network);
    const File rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &ruleset, size, 0)));
    if (!rules) return false;
    std::vector<std::string> folders = {"/usr",
                                        "/lib",
                                        "/lib64",
                                        "/etc/ld.so.cache",
                                        "/sys/devices/system/cpu",
                                        toolkit_libraries,
                                        library.substr(0, library.rfind('/') + 1),
                                        library};
    const char* const path = getenv("LD_LIBRARY_PATH");
    std::istringstream more(path ? path : "");
    for (std::string folder; std::getline(more, folder, ':');) folders.push_back(folder);
    for (const std::string& folder : folders) {
        if (folder.empty()) continue;
        const File there(open(folder.c_str(), O_PATH | O_CLOEXEC));
        if (!there) continue;  // so nothing will be found in it
        landlock_path_beneath_attr rule{to_read, there.fd()};
        if (syscall(SYS_landlock_add_rule, rules.fd(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) continue;
        rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;  // a file
        if (syscall(SYS_landlock_add_rule, rules.fd(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) return false;
    }
    return syscall(SYS_landlock_restrict_self, rules.fd(), 0) == 0;
}

}  // namespace barcuda::cage
