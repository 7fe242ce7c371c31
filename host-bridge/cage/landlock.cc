// SPDX-License-Identifier: Apache-2.0
// landlock.cc: which files a worker may use. The software GPU's worker: the files that its start reads, until the
// filter of system calls forbids it to open any. NVIDIA's driver opens files later too: it reads the system's files,
// uses its devices, and writes into CUDA's cache of code. Landlock applies to the calling thread and the threads that
// it starts, so it comes before the driver's threads. It also prevents the worker from tracing and signalling processes
// outside (if the kernel supports that).
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "base/message.h"
#include "host-bridge/cage/files.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

// As of ABI 6. An older kernel gets the part that it knows; older headers need not know it.
struct Ruleset {
    std::uint64_t files, network, scopes;
};
constexpr std::uint64_t truncate = 1 << 14, ioctl_of_devices = 1 << 15, bind_and_connect = 3, sockets_and_signals = 3;
constexpr std::uint64_t to_read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t to_use = LANDLOCK_ACCESS_FS_WRITE_FILE | truncate | ioctl_of_devices;
constexpr std::uint64_t of_a_file = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                    LANDLOCK_ACCESS_FS_READ_FILE | truncate | ioctl_of_devices;

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

namespace {

class Rules {
  public:
    explicit Rules(long abi) {
        const Ruleset r = known_to(abi);
        files_ = r.files;
        const std::size_t size = abi >= 6   ? sizeof r
                                 : abi >= 4 ? offsetof(Ruleset, scopes)
                                            : offsetof(Ruleset, network);
        rules_ = File(static_cast<int>(syscall(SYS_landlock_create_ruleset, &r, size, 0)));
    }
    // A missing file needs no rule.
    void allow(const std::string& path, std::uint64_t access) {
        const File there(path.empty() ? -1 : open(path.c_str(), O_PATH | O_CLOEXEC));
        if (!there) return;
        struct stat st;
        if (fstat(there.fd(), &st) == 0 && !S_ISDIR(st.st_mode)) access &= of_a_file;
        const landlock_path_beneath_attr rule{access & files_, there.fd()};
        good_ = good_ && syscall(SYS_landlock_add_rule, rules_.fd(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    }
    bool restrict_self() const {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // Landlock requires it of all users except root
        return rules_ && good_ && syscall(SYS_landlock_restrict_self, rules_.fd(), 0) == 0;
    }

  private:
    File rules_;
    std::uint64_t files_;
    bool good_ = true;
};

}  // namespace

bool restrict_files(const Order& order, const std::string& library) {
    const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) return false;
    Rules rules(abi);
    constexpr auto all_but_programs = ~std::uint64_t{LANDLOCK_ACCESS_FS_EXECUTE};
    for (const auto& [path, access] : shown_files(order, library))
        if (access == Access::read) rules.allow(path, to_read);
        else if (access == Access::use) rules.allow(path, to_read | to_use);
        else if (!order.software) rules.allow(path, all_but_programs);
    if (!order.software) {
        for (const char* path : {"cpuinfo", "devices", "driver", "filesystems", "meminfo", "modules", "stat",
                                 "sys/kernel", "sys/vm", "version"})
            rules.allow(std::string("/proc/") + path, to_read);
        // The worker names its threads, and truncates the file with the name. (The kernel drops this entry of /proc,
        // and the rule with it, unless a process has it open.)
        static const File self(open("/proc/self", O_PATH | O_CLOEXEC));
        rules.allow("/proc/self", to_read | to_use);
        if (order.has(Measure::mounts))
            rules.allow(shared_files, all_but_programs);  // not the host's, which has its regions
    }
    return rules.restrict_self();
}

}  // namespace barcuda::cage
