// SPDX-License-Identifier: Apache-2.0
// vm_parts.h: what `barcuda vm` puts together. Functions that may fail return why, or an empty string.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host-bridge/cli/own_bridge.h"

namespace barcuda::parts {

using Words = std::vector<std::string>;

struct VmOptions {
    BridgeOptions bridge;              // if no region is named
    std::vector<std::string> program;  // in the guest; empty: a shell
    std::string image;                 // a disk with cloud-init; empty: Debian's `debian`, which is made
    std::string debian = "bookworm";   // a release
    std::string packages;              // the folder with the guest's .deb files; empty: beside this program, or here
    std::string region;                // one that a bridge serves already
    std::string user = "cuda";         // in the guest
    std::vector<std::string> put;      // files and folders of this machine, into that user's home
    std::uint64_t memory = 2ull << 30;
    unsigned cpus = 2, timeout = 900;
    std::uint16_t port = 0;  // of this machine, for ssh; 0: one that is free
    bool module = false;     // Barcuda's, which DKMS builds in the guest, in place of virtio-pmem
    bool write = false;      // the disk keeps what the guest writes
    bool dry_run = false;
};

// ---- children (vm_children.cc) ----
bool found(const std::string& command);  // in PATH
std::string quoted(const Words& words);  // as a shell reads them
void catch_signals();                    // SIGINT, SIGTERM and SIGHUP are passed on to whatever `call` waits for
int caught();                            // the last of them, or 0
// Starts a command whose output goes to a file; empty: to this command's own. `apart`: Ctrl-C on this terminal is not
// for it, and it goes down with this process.
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
std::string find_packages(const VmOptions& c, Words& packages);
// Makes the folder that the guest gets as a disk: cloud-init's NoCloud, with a script that installs the packages and
// says on the second serial port how far that is: "ready", "failed: ...", or what it is about.
std::string make_seed(const std::string& folder, const Seed& seed);

}  // namespace barcuda::parts
