// SPDX-License-Identifier: Apache-2.0
// access.h: for whom the region's file and the doorbell's socket are, where the operator says it: a group, QEMU's for instance, and a mode.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace barcuda {

struct Access {
    std::optional<gid_t> group;  // none: this process's
    std::optional<mode_t> mode;  // none: 0660, less the umask where no group is given either
    explicit operator bool() const { return group || mode; }
    // Of what `fd` is open to (O_PATH will do) and `name` calls in a message. What is wrong; empty: nothing.
    std::string give(int fd, const std::string& name) const;
    std::string give(const std::string& path) const;  // of a socket, which this process has just made
};

// What the operator typed; a sentence on what is wrong, or nothing. Modes are 0600, 0640 and 0660: other users get nothing.
std::string read_group(const std::string& text, std::optional<gid_t>& group);
std::string read_mode(const std::string& text, std::optional<mode_t>& mode);

}  // namespace barcuda
