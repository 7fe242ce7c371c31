// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/commands/machine.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/cli/installation.h"
#include "base/message.h"
#include "guest-allocator/pmem/stack.h"
#include "shm-device/doors/service_messages.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// A service that was stopped leaves its socket, on which nothing listens.
bool listens(const char* path) {
    const File to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = unix_address(path);
    return to && (connect(to.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
                  errno != ECONNREFUSED);
}

}  // namespace

Machine::Machine()
    : pmem(pmem::find_device()),
      module(fs::exists("/sys/module/uio_barcuda")),
      socket(fs::exists(door::usual_path)),
      service(socket && listens(door::usual_path)),
      guest_package(fs::exists("/usr/lib/systemd/system/barcuda-guest.service")),
      bridge(access(installation().bridge.c_str(), X_OK) == 0) {
    std::error_code ec;
    for (const auto& pci : fs::directory_iterator("/sys/bus/pci/devices", ec))
        if (first_line(pci.path() / "vendor") == "0x1af4" && first_line(pci.path() / "device") == "0x1110")
            devices.push_back(pci.path().filename().string());
    for (const auto& block : fs::directory_iterator("/sys/class/block", ec)) {
        const std::string device = "/dev/" + block.path().filename().string();
        if (device.starts_with("/dev/pmem") && access(device.c_str(), R_OK) != 0) unread_pmem = device;
    }
}

}  // namespace barcuda
