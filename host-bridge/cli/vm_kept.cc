// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/vm_kept.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace barcuda::parts {
namespace {

namespace fs = std::filesystem;

// Where this user's data lie; empty: nowhere.
fs::path home_of_vms() {
    const char *const data = getenv("XDG_DATA_HOME"), *const home = getenv("HOME");
    if (data && *data) return fs::path(data) / "barcuda/vms";
    if (home && *home) return fs::path(home) / ".local/share/barcuda/vms";
    return {};
}

std::string line_of(const std::string& file, unsigned number) {
    std::ifstream in(file);
    std::string line;
    for (unsigned i = 0; i <= number; ++i)
        if (!std::getline(in, line)) return "";
    return line;
}

}  // namespace

KeptVm::KeptVm(std::string name) : name_(std::move(name)), folder_(home_of_vms() / name_) {}

std::vector<KeptVm> KeptVm::all() {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(home_of_vms(), error)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    std::vector<KeptVm> vms;
    for (const std::string& name : names)
        if (KeptVm vm(name); vm.exists()) vms.push_back(std::move(vm));
    return vms;
}

Failure KeptVm::check_name(const std::string& name) {
    constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (name.empty() || name.size() > 40 || name.find_first_not_of(letters) != std::string::npos || name[0] == '-')
        return fmt::format("'{}' is no name of a VM: it has up to 40 letters, digits, _ and -", name);
    if (home_of_vms().empty()) return "neither HOME nor XDG_DATA_HOME names a folder for the VM";
    return {};
}

bool KeptVm::exists() const { return access((folder_ + "/disk").c_str(), F_OK) == 0; }

bool KeptVm::runs() const {
    if (lock_) return true;
    const File lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    return lock && flock(lock.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string KeptVm::runs_already() const { return fmt::format("{0} runs already: `barcuda vm ssh {0}`", name_); }

Failure KeptVm::make() const {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!error) fs::permissions(folder_, fs::perms(0700), error);
    if (error) return fmt::format("cannot make {}: {}", folder_, error.message());
    return {};
}

Failure KeptVm::take() {
    if (Failure e = make()) return e;
    lock_ = File(open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_) return fmt::format("cannot make {}/lock: {}", folder_, strerror(errno));
    if (flock(lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
        lock_ = File();
        return runs_already();
    }
    // What a process that was killed has left of its run.
    std::error_code error;
    if (const std::string left = run_folder(); left.starts_with("/dev/shm/barcuda-vm-")) fs::remove_all(left, error);
    record("");  // this process holds the VM from now on; it has no run yet
    return {};
}

Failure KeptVm::keep(Disk& disk) const {
    const Disk kept = {folder_ + "/disk", disk.format, folder_ + "/vmlinuz", folder_ + "/initrd"};
    const bool has_kernel = !disk.kernel.empty();
    if (!exists()) {
        const std::string fresh = folder_ + "/fresh";  // a copy that was interrupted is no disk
        std::error_code error;
        if (has_kernel) {
            fs::copy_file(disk.kernel, kept.kernel, fs::copy_options::overwrite_existing, error);
            if (!error) fs::copy_file(disk.initrd, kept.initrd, fs::copy_options::overwrite_existing, error);
            if (error) return fmt::format("cannot copy the kernel to {}: {}", folder_, error.message());
        }
        if (const int status = call({"cp", "--reflink=auto", "--sparse=always", disk.file, fresh}); status != 0)
            return fmt::format("cannot copy {} to {}", disk.file, fresh);
        std::ofstream(folder_ + "/format") << disk.format << '\n';
        fs::rename(fresh, kept.file, error);
        if (error) return fmt::format("cannot make {}: {}", kept.file, error.message());
    }
    const bool boots_by_kernel = access(kept.kernel.c_str(), R_OK) == 0;
    disk = kept;
    disk.format = line_of(folder_ + "/format", 0);
    if (!boots_by_kernel) disk.kernel = disk.initrd = "";
    return {};
}

void KeptVm::record(const std::string& folder) const {
    std::ofstream(folder_ + "/running") << getpid() << '\n' << folder << '\n';
}
pid_t KeptVm::process() const { return std::atoi(line_of(folder_ + "/running", 0).c_str()); }
std::string KeptVm::run_folder() const { return line_of(folder_ + "/running", 1); }

Failure KeptVm::await_end() const {
    const File lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    while (lock && flock(lock.fd(), LOCK_EX) != 0)
        if (errno != EINTR) return fmt::format("cannot wait for {}: {}", name_, strerror(errno));
    return {};
}

Failure KeptVm::remove() const {
    std::error_code error;
    fs::remove_all(folder_, error);
    if (error) return fmt::format("cannot remove {}: {}", folder_, error.message());
    return {};
}

}  // namespace barcuda::parts
