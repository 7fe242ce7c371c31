// SPDX-License-Identifier: Apache-2.0
// vm_parts.h: what `barcuda vm` puts together. Functions that may fail return why, or an empty string.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/installation.h"

namespace barcuda::parts {

using Words = std::vector<std::string>;

// ---- children (vm_children.cc) ----
bool found(const std::string& command);  // in PATH
std::string quoted(const Words& words);  // as a shell reads them
void catch_signals();                    // SIGINT, SIGTERM and SIGHUP are passed on to whatever `call` waits for
int caught();                            // the last of them, or 0
// Starts a command whose output goes to a file; empty: to this command's own. `apart`: Ctrl-C on this terminal is not for it, and it
// goes down with this process.
pid_t start(const Words& words, const std::string& output, bool apart);
int call(const Words& words, const std::string& output = {});  // the same, and its status, as a shell has it
std::string last_lines(const std::string& file, unsigned lines);

// ---- the disk (vm_disk.cc) ----
struct Disk {
    std::string file, format;    // as QEMU calls it
    std::string kernel, initrd;  // empty: the disk boots by itself
};
// A release of Debian's, made if it is not there yet, which `dry_run` prints.
std::string debian_disk(const std::string& release, bool dry_run, Disk& disk);
std::string image_disk(const std::string& file, Disk& disk);

// ---- what the guest is told (vm_seed.cc) ----
struct Seed {
    std::string user, key;  // an ssh key's public half
    Words packages;         // files
    bool module;
};
// The guest's packages in the folder that `c` names, or in the usual ones.
std::string find_packages(const VmCommand& c, Words& packages);
// Makes the folder that the guest gets as a disk: cloud-init's NoCloud, with a script that installs the packages and says on the
// second serial port how far that is: "ready", "failed: ...", or what it is about.
std::string make_seed(const std::string& folder, const Seed& seed);

}  // namespace barcuda::parts
