// SPDX-License-Identifier: Apache-2.0
// vm_parts.h: the parts of `barcuda vm`. Functions that can fail return why, or an empty string.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <ios>
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/cli/own_bridge.h"

namespace barcuda::parts {

using Words = std::vector<std::string>;

struct VmOptions {
    OwnBridgeOptions bridge;           // used if no region is named
    std::vector<std::string> program;  // in the guest; empty: a shell
    std::string image;                 // a disk with cloud-init; empty: use a Debian root
    std::string debian;                // a release; empty: bookworm
    // the folder with the guest's .deb files; empty: beside this program, or the current folder
    std::string packages;
    std::string region;            // the region of a running bridge
    std::string user = "cuda";     // in the guest
    std::vector<std::string> put;  // files and folders of this machine to copy into that user's home
    std::uint64_t memory = 2ull << 30;
    unsigned cpus = 2, timeout = 900;
    std::uint16_t port = 0;  // of this machine, for ssh; 0: a free one
    bool module = false;     // use Barcuda's module, which DKMS builds in the guest, not virtio-pmem
    bool write = false;      // the disk keeps what the guest writes
    bool dry_run = false;
    std::string name;     // of a VM that is kept; empty: nothing of it stays
    bool detach = false;  // it goes on in the background when it is ready

    std::string release() const { return debian.empty() ? "bookworm" : debian; }
};

// Whether a VM of `barcuda vm` has this region for itself: it lies in the VM's folder, beside what `ssh` reads.
bool is_of_a_vm(const std::string& region);

// ---- children (vm_children.cc) ----
bool found(const std::string& command);  // in PATH
// Tools of root, such as resize2fs, are not in every user's PATH.
void add_system_folders_to_path();
std::string quoted(const Words& words);  // as a shell reads them
void catch_signals();  // SIGINT, SIGTERM and SIGHUP are passed on to the process for which `call` waits
int caught();          // the last of these signals, or 0
// Starts a command whose output goes to a file; empty: to this command's output. `apart`: Ctrl-C on this terminal does
// not reach it, and it ends with this process.
pid_t start(const Words& words, const std::string& output, bool apart);
// the same, and waits; returns its status as a shell does
int call(const Words& words, const std::string& output = {});
// The program, or a shell, in the guest of the VM that runs in this folder.
Words ssh_words(const Words& program, const std::string& folder);
// Of what the file has from this byte on.
std::string last_lines(const std::string& file, unsigned lines, std::streamoff from = 0);

// ---- the disk (vm_disk.cc) ----
struct Disk {
    std::string file, format;    // format: in QEMU's words
    std::string kernel, initrd;  // empty: the disk boots by itself
};
// What a tool is called, and the package that has it.
struct Tool {
    const char *file, *package;  // a file with a path, or a command in PATH
};
// The tools that make a Debian root of this release; none if the root is there.
std::vector<Tool> tools_for_debian(const std::string& release);
// Those that are missing, as a sentence with apt's command that installs them.
Failure missing(const std::vector<Tool>& tools);
// Finds a Debian root of this release, and makes it if it is missing; `dry_run`: prints the commands instead.
Failure debian_disk(const std::string& release, bool dry_run, Disk& disk);
Failure image_disk(const std::string& file, Disk& disk);

// ---- what the guest reads (vm_seed.cc) ----
struct Seed {
    std::string user, key;  // the public half of an ssh key
    Words packages;         // files
    bool module;
};
// Finds the guest's packages in the folder that `c` names, or in `kept`, a VM's own (empty: none), or in the usual
// folders.
Failure find_packages(const VmOptions& c, const std::string& kept, Words& packages);
// Makes the folder that the guest gets as a disk: cloud-init's NoCloud, with a script that installs the packages and
// reports progress on the second serial port: "ready", "failed: ...", or the current step.
Failure make_seed(const std::string& folder, const Seed& seed);

}  // namespace barcuda::parts
