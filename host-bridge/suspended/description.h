// SPDX-License-Identifier: Apache-2.0
// description.h: what a suspended VM is, in words: set.json. A bridge that wakes it compares these with its own before
// it opens anything else. The text has its own hash, and the names, lengths and hashes of all parts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/failure.h"

namespace barcuda {

struct Description {
    static constexpr std::uint32_t right_format = 4;  // grows with every change

    std::string build;     // of the bridge that was suspended
    std::string name;      // of the VM
    std::string region{};  // the path of its file
    std::string when;      // for people
    std::uint32_t layout = 0, packets = 0;
    std::uint32_t books = 0;           // Ledger::form
    std::uint32_t driver = 0;          // cuDriverGetVersion
    std::vector<std::string> gpus{};   // their names, in the order of the region's devices
    std::uint64_t base = 0, size = 0;  // of the region
    // Where the region was: a file that is still there may be newer than the set.
    std::string boot{};
    std::uint64_t device = 0, inode = 0;
    std::uint32_t epoch = 0;
    std::vector<std::uint32_t> clients{};  // channels
    std::string vm{};      // what its guest did: running or paused; empty: QEMU's part was saved by other means
    std::string domain{};  // of libvirt's; empty: QEMU was told by its own monitor

    struct Part {
        std::string name;         // in the folder
        std::uint64_t bytes = 0;  // of the file
        std::string hash;         // of the file (digest.h)
        bool operator==(const Part&) const = default;
    };
    std::vector<Part> parts{};
    bool operator==(const Description&) const = default;

    // The parts that this set has, by name.
    std::vector<std::string> names() const;
};
// Whether a set that moves can have a part of that name.
bool is_part(const std::string& name);

// A client's parts.
std::string births_of(std::uint32_t channel);
std::string memory_of(std::uint32_t channel);
std::string code_of(std::uint32_t channel);
// What QEMU has of the VM, without the region: its stream of a migration.
constexpr const char* part_of_vm = "vm.zst";
constexpr const char* part_of_domain = "domain.xml";  // as libvirt describes it

// The kernel's boot_id: an inode's number means the same file only until the next boot.
std::string this_boot();

std::string text_of(const Description& description);
// `draft`: its parts are not there yet.
Failure parse(const std::string& text, Description& description, bool draft = false);

}  // namespace barcuda
