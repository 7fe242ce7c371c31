// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/region_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "shm-device/region/region.h"

namespace barcuda::watch {
namespace {

namespace fs = std::filesystem;

bool owned_by(const struct stat& st, const std::set<uid_t>& owners) {
    return st.st_uid == 0 || owners.contains(st.st_uid);
}

// The first folder in which another user could replace this file. Empty: there is none.
std::string loose_folder(const fs::path& file, const std::set<uid_t>& owners) {
    for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
        struct stat st {};
        if (lstat(folder.c_str(), &st) != 0) return fmt::format("{}: {}", folder.string(), strerror(errno));
        if (!owned_by(st, owners))
            return fmt::format("{}: the folder belongs to user {}, and that user can put another file there",
                               folder.string(), st.st_uid);
        if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
            return fmt::format("{}: other users may replace files in the folder (chmod go-w, or chmod +t)",
                               folder.string());
        if (folder == folder.root_path()) return {};
    }
}

// `st`: the status of the file that was verified.
RegionFile verify(const std::string& path, const std::set<uid_t>& owners, struct stat& st) {
    const auto refuse = [](std::string why) { return RegionFile{{}, std::move(why)}; };
    if (path.empty() || path.front() != '/')
        return refuse(fmt::format("{}: not an absolute path; start the bridge with one", path));
    // O_PATH, because opening a device or a pipe would have effects.
    const File file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!file || fstat(file.fd(), &st) != 0) return refuse(fmt::format("{}: {}", path, strerror(errno)));
    if (!S_ISREG(st.st_mode)) {
        const char* const what = S_ISLNK(st.st_mode)   ? "a symbolic link"
                                 : S_ISDIR(st.st_mode) ? "a folder"
                                                       : "a device, a pipe or a socket";
        return refuse(fmt::format("{}: {}, not a region's file", path, what));
    }
    if (!owned_by(st, owners))
        return refuse(fmt::format("{}: belongs to user {}, not to root or to the bridge's user", path, st.st_uid));
    if (st.st_mode & S_IWOTH)
        return refuse(fmt::format("{}: every user may write to it; take that right away (chmod o-w)", path));
    if (st.st_nlink != 1)
        return refuse(fmt::format("{}: has {} names (hard links), so it is something else as well", path,
                                  static_cast<unsigned long>(st.st_nlink)));
    const std::string opened = fmt::format("/proc/self/fd/{}", file.fd());
    std::error_code ec;
    const fs::path real = fs::read_symlink(opened, ec);
    struct stat there {};
    if (ec || lstat(real.c_str(), &there) != 0 || there.st_dev != st.st_dev || there.st_ino != st.st_ino)
        return refuse(fmt::format("{}: another file has taken its place", path));
    if (std::string loose = loose_folder(real, owners); !loose.empty()) return refuse(std::move(loose));
    const File in(open(opened.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in) return refuse(fmt::format("{}: {}", path, strerror(errno)));
    barcuda_header header{};
    if (pread(in.fd(), &header, sizeof header, 0) != sizeof header)
        return refuse(fmt::format("{}: not a Barcuda region: too short", path));
    if (const Error e = validate(header, static_cast<std::uint64_t>(st.st_size), path.c_str())) return refuse(e.text);
    return {real.string(), {}};
}

std::optional<uid_t> number_of(const std::string& name) {
    uid_t uid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), uid);
    if (error == std::errc() && end == name.data() + name.size()) return uid;
    if (const passwd* const known = getpwnam(name.c_str())) return known->pw_uid;
    return {};
}

}  // namespace

RegionFile region_file(const std::string& path, const std::set<uid_t>& owners) {
    struct stat st {};
    return verify(path, owners, st);
}

RegionFile region_file(const std::string& path, const std::string& door, uid_t user) {
    struct stat st {};
    RegionFile found = verify(path, {user}, st);
    if (found.error.empty() && !fs::path(door).filename().string().starts_with(limits_name_of(st)))
        return {{}, fmt::format("{}: not the file that its bridge serves", path)};
    return found;
}

std::set<uid_t> believed_users(const std::vector<std::string>& names, std::string& error) {
    std::set<uid_t> users{0, geteuid()};
    if (const auto packages = number_of("barcuda")) users.insert(*packages);
    for (const std::string& name : names)
        if (const auto user = number_of(name)) users.insert(*user);
        else error = fmt::format("{}: there is no such user here; give the user's number", name);
    return users;
}

}  // namespace barcuda::watch
