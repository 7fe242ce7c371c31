// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/message.h"

namespace barcuda {
namespace {

template <class T> bool whole_number(const std::string& text, int base, T& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Failure Access::give(int fd, const std::string& name) const {
    if (!*this) return {};
    struct stat st {};
    if (fstat(fd, &st) != 0) return fmt::format("{}: {}", name, strerror(errno));
    if (group && st.st_gid != *group && fchownat(fd, "", static_cast<uid_t>(-1), *group, AT_EMPTY_PATH) != 0)
        return fmt::format("{}: cannot be given to group {} (--group): {}", name, *group, strerror(errno));
    const mode_t wanted = mode.value_or(0660);
    const std::string self = fmt::format("/proc/self/fd/{}", fd);
    if ((st.st_mode & 07777) != wanted && chmod(self.c_str(), wanted) != 0)
        return fmt::format("{}: cannot get the mode {:04o} (--mode): {}", name, wanted, strerror(errno));
    return {};
}

Failure Access::give(const std::string& path) const {
    const File made(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat st {};
    if (!made || fstat(made.fd(), &st) != 0) return fmt::format("{}: {}", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return fmt::format("{}: another user has put something in its place", path);
    return give(made.fd(), path);
}

Failure read_group(const std::string& text, std::optional<gid_t>& group) {
    gid_t number = 0;
    if (whole_number(text, 10, number) && number != static_cast<gid_t>(-1)) {
        group = number;
        return {};
    }
    if (const ::group* const known = getgrnam(text.c_str())) {
        group = known->gr_gid;
        return {};
    }
    return text + ": there is no such group";
}

Failure read_mode(const std::string& text, std::optional<mode_t>& mode) {
    unsigned number = 0;
    if (!whole_number(text, 8, number) || (number != 0600 && number != 0640 && number != 0660))
        return text + ": a mode is 0600, 0640 or 0660, since other users must not reach the region";
    mode = static_cast<mode_t>(number);
    return {};
}

}  // namespace barcuda
