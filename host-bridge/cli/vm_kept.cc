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

#include "base/cli/names.h"
#include "base/cli/user_folders.h"

namespace barcuda::parts {
namespace {

namespace fs = std::filesystem;

constexpr const char* unfinished = ".part";  // behind the name of a file that is being made
constexpr const char* power_off = "off";     // of the guest, as a run should end

// Where this user's VMs lie; empty: nowhere.
fs::path home_of_vms() {
    const fs::path data = user_folder(UserFolder::data);
    return data.empty() ? data : data / "vms";
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
    if (home_of_vms().empty()) return no_user_folder(UserFolder::data, "for the VM");
    return barcuda::check_name(name);
}

bool KeptVm::exists() const { return access((folder_ + "/lock").c_str(), F_OK) == 0; }
bool KeptVm::has_disk() const { return access((folder_ + "/disk").c_str(), F_OK) == 0; }

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
    record_end({});  // nothing can be lost before its guest starts
    record("", "");  // this process holds the VM from now on; it has no run yet
    return {};
}

Failure KeptVm::keep(Disk& disk) const {
    Disk kept = {folder_ + "/disk", disk.format, folder_ + "/vmlinuz", folder_ + "/initrd"};
    if (!has_disk()) {
        kept.file += unfinished;
        discard();
        std::error_code error;
        if (!disk.kernel.empty()) fs::copy_file(disk.kernel, kept.kernel, error);
        if (!disk.initrd.empty() && !error) fs::copy_file(disk.initrd, kept.initrd, error);
        if (error) return fmt::format("cannot copy the kernel to {}: {}", folder_, error.message());
        if (call({"cp", "--reflink=auto", "--sparse=always", disk.file, kept.file}) != 0)
            return fmt::format("cannot copy {} to {}", disk.file, kept.file);
        std::ofstream format(folder_ + "/format");
        format << disk.format << '\n';
        format.close();
        if (!format) return fmt::format("cannot write {}/format", folder_);
    }
    kept.format = line_of(folder_ + "/format", 0);
    if (access(kept.kernel.c_str(), R_OK) != 0) kept.kernel = kept.initrd = "";
    disk = kept;
    return {};
}

Failure KeptVm::finish() const {
    if (has_disk()) return {};
    std::error_code error;
    fs::rename(folder_ + "/disk" + unfinished, folder_ + "/disk", error);
    if (error) return fmt::format("cannot make {}/disk: {}", folder_, error.message());
    return {};
}

void KeptVm::discard() const {
    if (has_disk()) return;
    std::error_code error;
    for (const std::string& file :
         {std::string("disk") + unfinished, std::string("vmlinuz"), std::string("initrd"), std::string("format")})
        fs::remove(fs::path(folder_) / file, error);
}

Failure KeptVm::keep_packages(Words& packages) const {
    const fs::path place = this->packages(), fresh = place.string() + unfinished;
    std::error_code error;
    if (!packages.empty() && fs::path(packages[0]).parent_path() == place) return {};
    fs::remove_all(fresh, error);
    fs::create_directory(fresh, error);
    for (std::string& package : packages) {
        const fs::path name = fs::path(package).filename();
        if (!error) fs::copy_file(package, fresh / name, error);
        package = place / name;
    }
    if (!error) fs::remove_all(place, error);
    if (!error) fs::rename(fresh, place, error);
    if (error) return fmt::format("cannot copy the packages to {}: {}", place.string(), error.message());
    return {};
}

void KeptVm::record(const std::string& folder, const std::string& ssh) const {
    std::ofstream(folder_ + "/running") << getpid() << '\n' << folder << '\n';
    std::ofstream(folder_ + "/ssh") << ssh;
}
pid_t KeptVm::process() const { return std::atoi(line_of(folder_ + "/running", 0).c_str()); }
std::string KeptVm::run_folder() const { return line_of(folder_ + "/running", 1); }

Failure KeptVm::await_end() const {
    const File lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    while (lock && flock(lock.fd(), LOCK_EX) != 0)
        if (errno != EINTR) return fmt::format("cannot wait for {}: {}", name_, strerror(errno));
    return {};
}

void KeptVm::begin() const {
    std::error_code error;
    fs::remove(folder_ + "/ended", error);
}

void KeptVm::record_end(const Failure& lost) const {
    std::error_code error;
    fs::remove(folder_ + "/ssh", error);
    std::ofstream(folder_ + "/ended") << (lost ? lost.text() : power_off) << '\n';
}

Failure KeptVm::end() const {
    const std::string how = line_of(folder_ + "/ended", 0);
    if (how == power_off) return {};
    return how.empty() ? "its process was killed, and the guest with it, without a power off" : how;
}

Failure KeptVm::remove() const {
    std::error_code error;
    fs::remove_all(folder_, error);
    if (error) return fmt::format("cannot remove {}: {}", folder_, error.message());
    return {};
}

}  // namespace barcuda::parts
