// SPDX-License-Identifier: Apache-2.0
// commands.h: the subcommands of `barcuda`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace barcuda {

struct RunOptions {
    std::string device = "auto";
    std::string gpus;           // of this machine; empty: all
    std::string wrapper;        // around the worker
    std::string no_cage, cage;  // measures that are left out, and taken on
    std::uint64_t region_size = 4ull << 30;
    std::vector<std::string> program;
    bool statistics = false;
    bool host_libraries = false;  // cuBLAS and cuRAND of the host, though there may be others
};
// Runs the program; returns its exit status (128 + signal if one killed it), or 125 if it could not be run under
// Barcuda.
int run(const RunOptions& options);

// In a guest: becomes the program, with the library in front. Returns only if that cannot be: 125, or 126 and 127 as shells have
// them.
int exec(const std::vector<std::string>& program, bool host_libraries);

// Returns 0 if CUDA programs can run here, 1 if something is missing.
int doctor(bool json);

// Prints which functions cross to the host, and how.
int support(bool json);

// Prints how the GPUs of this guest are doing, or, of a machine without a region or with a `device` (cuda, soft), that machine's
// own. Returns 1 if nobody says it.
int smi(const std::string& device, bool json);

// Prints the bridges of this machine and their clients.
int ps(bool json);
// The same, and what they do, again and again, until a key ends it; `once`, `json`: for so many seconds, as text.
int top(bool json, bool once, double interval);

// Prints their metrics for Prometheus.
int metrics(bool clients, bool gpus);

// Puts traces (BARCUDA_TRACE) of guests and hosts together, on the first one's clock, into the file `output`; "-": printed.
// Returns 1, having said why, if that cannot be.
int merge_traces(const std::vector<std::string>& files, const std::string& output);

struct LimitCommand {
    std::string region = "/dev/shm/barcuda";
    std::optional<std::uint32_t> client, channel;  // one of the two, or neither: which client's alone
    std::vector<std::string> changes;              // NAME=VALUE
    bool json = false;
};
// Shows or changes what the clients of a running bridge may have. Returns 1, having said why, if that cannot be.
int limit(const LimitCommand& command);

struct GuestCommand {
    bool disable = false;
    bool user = false;           // this user's programs alone
    bool system = false;         // all programs: what it means, too, if nothing is said
    bool every_program = false;  // by /etc/ld.so.preload
    std::string root;            // of the guest's file system; empty: this one's
};
// Lets a guest's programs find the library by themselves, or no more. Returns 1, having said why, if that cannot be.
int guest(const GuestCommand& command);
// Prints which device this guest has, who may use it, and which programs find it by themselves.
int guest_status();

struct VmConfig {
    std::string manager, name, region, socket;  // region and socket: empty: those of the unit barcuda-bridge@NAME
    std::uint64_t size = 4ull << 30;
    std::uint64_t memory = 4ull << 30;  // the VM's own
    bool interrupts = false;
    bool pmem = false;  // as memory, not as an ivshmem device
};
// Prints what a manager of VMs is to add to a VM.
int vm_config(VmConfig config);
// QEMU's words for that, with the sizes and paths as they are given.
std::vector<std::string> qemu_options(const VmConfig& config);

struct VmCommand {
    RunOptions run;                   // the bridge's, if no region is named, and the program's
    std::string image;                // a disk with cloud-init; empty: Debian's `debian`, which is made
    std::string debian = "bookworm";  // a release
    std::string packages;             // the folder with the guest's .deb files; empty: beside this program, or here
    std::string region;               // one that a bridge serves already
    std::string user = "cuda";        // in the guest
    std::vector<std::string> put;     // files and folders of this machine, into that user's home
    std::uint64_t memory = 2ull << 30;
    unsigned cpus = 2, timeout = 900;
    std::uint16_t port = 0;  // of this machine, for ssh; 0: one that is free
    bool module = false;     // Barcuda's, which DKMS builds in the guest, in place of virtio-pmem
    bool write = false;      // the disk keeps what the guest writes
    bool dry_run = false;
};
// Starts a VM and runs the program in it, by ssh, or a shell; returns its status, 128 + signal as a shell has it, 255 if ssh has
// failed, or 125 if there is no VM.
int vm(const VmCommand& command);

// Prints a CDI specification (containers' device interface) of these VMs' bridges, or of this guest's devices. `region`: the file, if it is
// not /dev/shm/barcuda-NAME, of the one VM that is named.
int cdi(const std::vector<std::string>& vms, const std::string& region);

}  // namespace barcuda
