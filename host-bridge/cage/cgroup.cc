// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cage/cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/message.h"

namespace barcuda::cage {
namespace {

constexpr auto bridges = "barcuda-bridge", workers = "barcuda-worker-";  // followed by the bridge's pid and a number
constexpr auto needed = {"memory", "pids", "cpu"};
// A stream of the software GPU is a thread, and programs make thousands. A Linux host has 4 million process numbers, or
// 32,768.
constexpr auto most_threads = "16384";
// Ten times a worker's, because the bridge serves them all.
constexpr auto bridges_weight = "1000";

std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

bool write_to(const std::string& path, const std::string& text) {
    const File file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return file && write(file.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool has_word(const std::string& text, const std::string& word) {
    std::istringstream in(text);
    for (std::string w; in >> w;)
        if (w == word) return true;
    return false;
}

// The number after a word, in a file of such lines.
std::uint64_t count(const std::string& path, const std::string& word) {
    std::ifstream in(path);
    std::uint64_t n = 0;
    for (std::string name; in >> name >> n;)
        if (name == word) return n;
    return 0;
}

// The folder of this process's group (version 2); empty: no group is visible.
std::string own_folder() {
    std::string own;
    std::ifstream groups("/proc/self/cgroup"), mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(groups, line);)
        if (line.starts_with("0::")) own = line.substr(3);
    for (std::string line; std::getline(mounts, line);) {
        if (line.find(" - cgroup2 ") == line.npos) continue;
        std::istringstream in(line);
        std::string number, parent, device, root, place;
        in >> number >> parent >> device >> root >> place;
        if (root == "/") root.clear();
        if (own.starts_with(root + "/")) return place + (own == "/" ? "" : own.substr(root.size()));
    }
    return {};
}

}  // namespace

Groups::Groups() : folder_(own_folder()), owner_(getpid()) {
    error_ = settle();
    if (error_.empty()) remove_old();
}

// What was made stays if another bridge's group is in it.
Groups::~Groups() {
    if (getpid() != owner_) return;
    for (const std::string& group : std::vector(leaving_)) remove(group);
    if (!moved_ || !alone()) return;
    for (const char* controller : needed) write_to(path("", "cgroup.subtree_control"), fmt::format("-{}", controller));
    move_back();
}

bool Groups::move_back() const {
    if (keeper_ != 0) write_to(path("", "cgroup.procs"), std::to_string(keeper_));
    return write_to(path("", "cgroup.procs"), "0") && rmdir(path(bridges, "").c_str()) == 0;
}

std::string Groups::settle() {
    const auto failed = [](const std::string& what) { return fmt::format("{}: {}", what, strerror(errno)); };
    if (folder_.empty()) return "there is no file system of control groups (cgroup v2)";
    // the process has been moved already
    if (folder_.ends_with(std::string("/") + bridges)) folder_.resize(folder_.rfind('/'));
    const std::string there = text_of(path("", "cgroup.controllers")), enable = path("", "cgroup.subtree_control");
    std::string missing;
    for (const char* controller : needed)
        if (!has_word(there, controller)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", controller);
    if (!missing.empty()) return fmt::format("{} lacks {} (for a unit: Delegate=)", folder_, missing);
    // the root of all groups may hold processes, too
    const bool root = access(path("", "cgroup.type").c_str(), F_OK) != 0;
    if (!root) {
        if (mkdir(path(bridges, "").c_str(), 0755) != 0 && errno != EEXIST) return failed(folder_);
        moved_ = write_to(path(bridges, "cgroup.procs"), "0");
        if (moved_ && keeper_ != 0) write_to(path(bridges, "cgroup.procs"), std::to_string(keeper_));
        if (!moved_) {
            std::string why = failed(folder_);
            rmdir(path(bridges, "").c_str());
            return why;
        }
    }
    std::string all;
    for (const char* controller : needed) all += fmt::format("{}+{}", all.empty() ? "" : " ", controller);
    if (!write_to(enable, all)) {
        std::string why = errno == EBUSY ? folder_ + ": there are other processes in it" : failed(enable);
        if (moved_ && move_back()) moved_ = false;
        return why;
    }
    if (moved_) write_to(path(bridges, "cpu.weight"), bridges_weight);
    return {};
}

// Whether the bridge's group is the only one here.
bool Groups::alone() const {
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ec))
        if (entry.is_directory(ec) && entry.path().filename() != bridges) return false;
    return true;
}

// Removes groups of bridges that were killed.
void Groups::remove_old() const {
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ec)) {
        const std::string name = entry.path().filename();
        if (!name.starts_with(workers)) continue;
        const pid_t bridge = std::atoi(name.c_str() + std::strlen(workers));
        if (bridge > 0 && kill(bridge, 0) != 0 && errno == ESRCH) rmdir(entry.path().c_str());
    }
}

std::string Groups::path(const std::string& group, const char* file) const {
    return fmt::format("{}{}{}/{}", folder_, group.empty() ? "" : "/", group, file);
}

std::string Groups::make() {
    for (const std::string& group : std::vector(leaving_)) remove(group);
    std::string name;
    do name = fmt::format("{}{}-{}", workers, owner_, made_++);
    while (mkdir(path(name, "").c_str(), 0755) != 0 && errno == EEXIST);
    if (write_to(path(name, "pids.max"), most_threads) && write_to(path(name, "memory.oom.group"), "1")) return name;
    const int why = errno;
    rmdir(path(name, "").c_str());
    errno = why;
    return "";
}

bool Groups::join(const std::string& group) const { return write_to(path(group, "cgroup.procs"), "0"); }

std::uint64_t Groups::used(const std::string& group) const {
    return std::strtoull(text_of(path(group, "memory.current")).c_str(), nullptr, 10);
}

bool Groups::bound(const std::string& group, std::uint64_t bytes) const {
    const std::string swap = path(group, "memory.swap.max");  // missing on some kernels
    if (access(swap.c_str(), F_OK) == 0 && !write_to(swap, bytes ? "0" : "max")) return false;
    return write_to(path(group, "memory.max"), bytes ? std::to_string(bytes) : "max");
}

bool Groups::was_too_large(const std::string& group) const {
    const std::string events = path(group, "memory.events");
    return count(events, "oom") > 0 && count(events, "oom_kill") > 0;
}

void Groups::remove(const std::string& group) {
    std::erase(leaving_, group);
    if (group.empty() || rmdir(path(group, "").c_str()) == 0 || errno == ENOENT) return;
    write_to(path(group, "cgroup.kill"), "1");
    leaving_.push_back(group);
}

}  // namespace barcuda::cage
