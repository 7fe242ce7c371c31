// SPDX-License-Identifier: Apache-2.0
// vm_disk.cc: the disk of a VM: an image of the user's, or a Debian root that mmdebstrap makes from the archive once,
// in ~/.cache/barcuda. Barcuda adds only one unit to that root. The unit runs the script of the seed (vm_seed.cc), as
// cloud-init does in an image.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/cli/user_folders.h"
#include "host-bridge/cli/vm_parts.h"

namespace barcuda::parts {
namespace {

namespace fs = std::filesystem;

// The kernel package for clouds has virtio_pmem, ext4 and uio, and a quarter of the size of the usual one.
constexpr auto packages =
    "linux-image-cloud-amd64,systemd-sysv,udev,dbus,iproute2,openssh-server,sudo,ca-certificates,libstdc++6";

// Runs in the folder above the new root; $1 is the root. The network is QEMU's, which has a name server at this
// address.
constexpr auto set_up = R"sh(set -e
cat > "$1/etc/systemd/system/barcuda-vm.service" << 'UNIT'
[Unit]
Description=What barcuda vm asks of this guest
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /run/barcuda-seed && mount -o ro -L CIDATA /run/barcuda-seed && )sh"
                        R"sh(exec sh /run/barcuda-seed/user-data'
[Install]
WantedBy=multi-user.target
UNIT
printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' > "$1/etc/systemd/network/80-dhcp.network"
chroot "$1" systemctl enable barcuda-vm systemd-networkd
rm -f "$1/etc/resolv.conf"
echo nameserver 10.0.2.3 > "$1/etc/resolv.conf"
echo barcuda-vm > "$1/etc/hostname"
echo '127.0.0.1 localhost barcuda-vm' > "$1/etc/hosts"
cp -L "$1/vmlinuz" "$1/kernel"
cp -L "$1/initrd.img" "$1/initrd"
)sh";

// The commands that make the files of a folder. They need neither root nor a mount.
std::vector<Words> commands(const std::string& release, const std::string& folder) {
    const std::string image = folder + "/root.img";
    return {{"env", "TMPDIR=/var/tmp", "mmdebstrap", "--variant=apt", "--format=ext2",
             std::string("--include=") + packages, std::string("--customize-hook=") + set_up,
             fmt::format("--customize-hook=download /kernel {}", quoted({folder + "/vmlinuz"})),
             fmt::format("--customize-hook=download /initrd {}", quoted({folder + "/initrd"})),
             "--customize-hook=rm \"$1/kernel\" \"$1/initrd\"", release, image},
            {"truncate", "-s", "8G", image},
            {"resize2fs", "-f", image},
            {"tune2fs", "-j", image}};
}

Failure make(const std::string& release, const fs::path& place) {
    std::string fresh = place.string() + ".XXXXXX";
    if (!mkdtemp(fresh.data())) return fmt::format("cannot make a folder {}: {}", fresh, strerror(errno));
    std::error_code error;
    fs::permissions(fresh, fs::perms(0755), error);  // mmdebstrap runs as several users
    fmt::print(stderr, "barcuda vm: making a root of Debian {}, this once (a few minutes) ...\n", release);
    const std::string log = fresh + "/log";
    for (const Words& words : commands(release, fresh))
        if (const int status = call(words, log); status != 0) {
            std::string said = last_lines(log, 15);
            fs::remove_all(fresh, error);
            if (caught()) return "interrupted";
            return fmt::format("{} ended with status {}:\n{}", words[words[0] == "env" ? 2 : 0], status, said);
        }
    fs::rename(fresh, place, error);
    if (error) return fmt::format("cannot make {}: {}", place.string(), error.message());
    return {};
}

fs::path place_of(const std::string& release) { return user_folder(UserFolder::cache) / ("debian-" + release); }

}  // namespace

std::vector<Tool> tools_for_debian(const std::string& release) {
    std::error_code error;
    if (fs::exists(place_of(release), error)) return {};
    std::vector<Tool> tools = {{"mmdebstrap", "mmdebstrap"},
                               {"genext2fs", "genext2fs"},
                               {"resize2fs", "e2fsprogs"},
                               {"tune2fs", "e2fsprogs"},
                               {"/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"}};
    if (geteuid() != 0) tools.push_back({"newuidmap", "uidmap"});
    return tools;
}

Failure debian_disk(const std::string& release, bool dry_run, Disk& disk) {
    const fs::path folder = user_folder(UserFolder::cache);
    if (folder.empty()) return no_user_folder(UserFolder::cache, "to keep Debian's root in");
    const fs::path place = place_of(release);
    disk = {place / "root.img", "raw", place / "vmlinuz", place / "initrd"};
    std::error_code error;
    if (dry_run) {
        if (!fs::exists(place, error))
            for (const Words& words : commands(release, place)) fmt::print("{}\n", quoted(words));
        return {};
    }
    fs::create_directories(folder, error);
    const int lock = open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) return fmt::format("cannot write to {}: {}", folder.string(), strerror(errno));
    Failure why;
    if (flock(lock, LOCK_EX) != 0) why = "interrupted";
    else if (!fs::exists(place, error)) why = make(release, place);
    close(lock);
    return why;
}

Failure image_disk(const std::string& file, Disk& disk) {
    std::error_code error;
    const fs::path whole = fs::absolute(file, error);
    char magic[4] = {};
    std::ifstream in(whole, std::ios::binary);
    if (!fs::is_regular_file(whole, error) || !in.read(magic, sizeof magic))
        return fmt::format("--image {}: {}", file,
                           error           ? error.message()
                           : !in.is_open() ? strerror(EACCES)
                                           : "it is not a disk");
    disk = {whole, std::string_view(magic, 4) == "QFI\xfb" ? "qcow2" : "raw", "", ""};
    return {};
}

}  // namespace barcuda::parts
