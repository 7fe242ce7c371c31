// SPDX-License-Identifier: Apache-2.0
// access.h: the group and the mode of the region's file and of the doorbell's socket, if the operator sets them: QEMU's
// group, for example.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "base/failure.h"

namespace barcuda {

struct Access {
    std::optional<gid_t> group;  // none: this process's
    std::optional<mode_t> mode;  // none: 0660, minus the umask if no group is given either
    explicit operator bool() const { return group || mode; }
    // Sets them for the file behind `fd` (O_PATH is enough); `name` is for messages.
    Failure give(int fd, const std::string& name) const;
    Failure give(const std::string& path) const;  // of a socket that this process has just made
};

// Reads what the operator typed. Modes are 0600, 0640 and 0660: other users get nothing.
Failure read_group(const std::string& text, std::optional<gid_t>& group);
Failure read_mode(const std::string& text, std::optional<mode_t>& mode);

}  // namespace barcuda
