// SPDX-License-Identifier: Apache-2.0
// ledgers.h: the ledgers of all processes (ledger.h) that this process may read: for the software GPU's NVML.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "soft-gpu/driver/ledger.h"

namespace barcuda::soft {

// Reads the ledger of a process; false: it has none.
inline bool read_ledger(const char* pid, Ledger& ledger) {
    const std::string path = std::string("/proc/") + pid + "/fd/" + std::to_string(Ledger::descriptor);
    char target[64];
    const ssize_t n = readlink(path.c_str(), target, sizeof target - 1);
    if (n < 0) return false;
    target[n] = '\0';
    if (std::string(target).find(std::string("/memfd:") + Ledger::name) != 0) return false;
    // it may be another file by now
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return false;
    const bool whole = pread(file, static_cast<void*>(&ledger), sizeof ledger, 0) == sizeof ledger;
    close(file);
    return whole && ledger.format == Ledger::form && std::to_string(ledger.pid) == pid;
}

template <class F> void each_ledger(const F& f) {
    DIR* const processes = opendir("/proc");
    if (!processes) return;
    while (const dirent* process = readdir(processes)) {
        Ledger ledger;
        if (process->d_name[0] >= '1' && process->d_name[0] <= '9' && read_ledger(process->d_name, ledger)) f(ledger);
    }
    closedir(processes);
}

}  // namespace barcuda::soft
