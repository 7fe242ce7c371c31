// SPDX-License-Identifier: Apache-2.0
// vm_seed.cc: what a guest of `barcuda vm` reads, in the form of cloud-init's NoCloud: a disk with the label CIDATA.
// QEMU makes the disk from a folder with a script `user-data` and the packages.
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "host-bridge/cli/vm_parts.h"

namespace barcuda::parts {
namespace {

namespace fs = std::filesystem;

// $user, $key and $module are set before. An image's own timers may hold apt's lock for some time.
constexpr auto script = R"sh(
say() { echo "$*" > /dev/ttyS1; }
fail() { say "failed: $*"; exit 1; }
log=/run/barcuda-vm.log seed=/run/barcuda-seed
try() { "$@" > $log 2>&1 || fail "$1 $2: $(tail -n 5 $log | tr '\n' ' ')"; }
export DEBIAN_FRONTEND=noninteractive
apt() { try apt-get -q -y -o DPkg::Lock::Timeout=600 "$@"; }

command -v apt-get > /dev/null || fail "this guest has no apt: Barcuda's packages are Debian packages"
[ -e $seed/user-data ] || { mkdir -p $seed; try mount -o ro -L CIDATA $seed; }
cmp -s $seed/meta-data /var/lib/vm-seed.done && { say ready; exit; }  # the machine has been started anew
try dpkg --configure -a  # an earlier start may have been cut off in the middle
if [ -n "$module" ]; then
    say "reading the archive's lists"
    apt update
    say "installing the kernel's headers and DKMS"
    apt --no-install-recommends install "linux-headers-$(uname -r)" dkms
    say "installing the packages and building the module"
    apt --no-install-recommends install $seed/*.deb
    try modprobe uio_barcuda
else
    say "installing the packages"
    apt --no-install-recommends --reinstall --allow-downgrades install $seed/*.deb
    try systemctl enable barcuda-guest
    try systemctl restart barcuda-guest
    [ -S /run/barcuda/guest.sock ] || fail "barcuda-guest: $(journalctl -u barcuda-guest -n 5 -o cat | tr '\n' ' ')"
fi
try barcuda guest enable
try systemctl daemon-reexec
if ! id "$user" > /dev/null 2>&1; then
    try useradd -m -s /bin/bash "$user"
    [ ! -d /etc/sudoers.d ] || {
        echo "$user ALL=(ALL:ALL) NOPASSWD: ALL" > /etc/sudoers.d/90-barcuda-vm
        chmod 440 /etc/sudoers.d/90-barcuda-vm
    }
fi
try usermod -aG barcuda "$user"
home=$(getent passwd "$user" | cut -d: -f6)
install -d -o "$user" -m 700 "$home/.ssh"
grep -v ' barcuda-vm$' "$home/.ssh/authorized_keys" > "$home/.ssh/keys" 2> /dev/null
echo "$key" >> "$home/.ssh/keys"
chown "$user" "$home/.ssh/keys" && mv "$home/.ssh/keys" "$home/.ssh/authorized_keys"
systemctl start ssh > /dev/null 2>&1 || try systemctl start sshd
cp $seed/meta-data /var/lib/vm-seed.done
sync  # from here on the disk is kept
say ready
)sh";

}  // namespace

Failure find_packages(const VmOptions& c, const std::string& kept, Words& packages) {
    Words folders = {c.packages};
    if (c.packages.empty()) folders = {fs::path(installation().bridge).parent_path().parent_path() / "packages", "."};
    if (c.packages.empty() && !kept.empty()) folders.insert(folders.begin(), kept);
    Words names = {"barcuda-common", "barcuda-guest"};
    if (c.module) names.emplace_back("barcuda-dkms");
    std::string lacks;
    for (const std::string& folder : folders) {
        packages.clear();
        for (const std::string& name : names) {
            glob_t all = {};
            const int status = glob(fmt::format("{}/{}_*.deb", folder, name).c_str(), 0, nullptr, &all);
            if (status == 0 && all.gl_pathc == 1) packages.emplace_back(all.gl_pathv[0]);
            else if (lacks.empty() && folder != kept)
                lacks = fmt::format("{} has {} {}_*.deb", folder, status == 0 ? "more than one" : "no", name);
            globfree(&all);
        }
        if (packages.size() == names.size()) return {};
    }
    return fmt::format(
        "{}: --packages names the folder with the guest's packages, which `make deb` makes in build/packages", lacks);
}

Failure make_seed(const std::string& folder, const Seed& seed) {
    std::error_code error;
    fs::create_directory(folder, error);
    for (const std::string& package : seed.packages)
        if (!error) fs::copy_file(package, fs::path(folder) / fs::path(package).filename(), error);
    if (error) return fmt::format("cannot copy the packages to {}: {}", folder, error.message());
    std::ofstream(folder + "/meta-data") << fmt::format("instance-id: {}\n",
                                                        fs::path(folder).parent_path().filename().string());
    std::ofstream data(folder + "/user-data");
    data << "#!/bin/sh\n# Written by `barcuda vm`.\n"
         << fmt::format("user={}\nkey={}\nmodule={}\n", quoted({seed.user}), quoted({seed.key}),
                        seed.module ? "yes" : "")
         << script;
    data.close();
    if (!data) return fmt::format("cannot write {}/user-data", folder);
    return {};
}

}  // namespace barcuda::parts
