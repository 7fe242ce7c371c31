// SPDX-License-Identifier: Apache-2.0
// vm_config.cc: `barcuda vm-config`: what to add to a VM, in the form of its manager. The names are those of the unit
// barcuda-bridge@NAME: its region, and its socket for interrupts.
#include "host-bridge/cli/vm_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/cli/names.h"
#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/container.h"

namespace barcuda {
namespace {

std::string size_in(std::uint64_t bytes) {  // in the form of QEMU, libvirt and Proxmox
    return bytes % (1ull << 30) == 0 ? fmt::format("{}G", bytes >> 30) : fmt::format("{}M", bytes >> 20);
}

// Includes the region, which is memory of the VM in this case, and begins at a multiple of one GiB.
std::uint64_t most_memory(const VmConfig& c) { return c.memory + c.size + (1ull << 30); }

// The devices of a Windows guest, whose driver gives each to one process: NAME-1 and so on, each with a bridge.
std::vector<VmConfig> devices_of(const VmConfig& c) {
    if (c.windows == 0) return {c};
    std::vector<VmConfig> all;
    for (int number = 1; number <= c.windows; ++number) {
        VmConfig one = c;
        one.name = fmt::format("{}-{}", c.name, number);
        one.region = container::usual_region(one.name);
        one.id = fmt::format("barcuda{}", number);
        all.push_back(one);
    }
    return all;
}

std::string qemu_line(const VmConfig& c) {
    std::vector<std::string> words;
    for (const VmConfig& device : devices_of(c))
        for (const std::string& word : qemu_options(device)) words.push_back(word);
    return fmt::format("{}", fmt::join(words, " "));
}

// libvirt's element for a device with the region; libvirt looks for the region in /dev/shm.
std::string shmem(const VmConfig& c) {
    return fmt::format("<shmem name='{}'{}>\n  <model type='ivshmem-plain'/>\n  <size unit='M'>{}</size>\n</shmem>\n",
                       c.region.substr(c.region.rfind('/') + 1), c.suspends ? " role='master'" : "", c.size >> 20);
}

// QEMU's options, because libvirt since 9.0 (Debian 12's) does not start a domain with its own <memory
// model='virtio-pmem'>: "virtio-pmem memory device info is not handled yet". A second -m adds to libvirt's size. QEMU
// makes this device first, so its slot must not be one of libvirt's, which begin at 1 (and 0x1d is the chip set's).
std::string libvirt_pmem(const VmConfig& c) {
    std::string arguments;
    for (std::string word : qemu_options(c)) {
        if (const auto slots = word.find(",slots="); slots != std::string::npos) word.erase(0, slots + 1);
        if (word.starts_with("virtio-pmem-pci")) word += ",addr=0x1c";
        arguments += fmt::format("  <qemu:arg value='{}'/>\n", word);
    }
    return fmt::format(
        "<!-- virsh edit {0}: as the last of <domain>. For a VM with a memory of at most {1}. Where AppArmor confines "
        "VMs,\n     {2} rw,\n     into /etc/apparmor.d/local/abstractions/libvirt-qemu -->\n"
        "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n{3}</qemu:commandline>\n",
        c.name, size_in(c.memory), c.region, arguments);
}

std::string libvirt(const VmConfig& c) {
    if (c.interrupts)
        return fmt::format(
            "<!-- virsh edit {0}: into <devices> -->\n<shmem name='barcuda-{0}'>\n  <model type='ivshmem-doorbell'/>\n"
            "  <server path='{1}'/>\n  <msi vectors='1'/>\n</shmem>\n",
            c.name, c.socket);
    if (c.pmem) return libvirt_pmem(c);
    std::string elements;
    for (const VmConfig& device : devices_of(c)) elements += shmem(device);
    return fmt::format("<!-- virsh edit {}: into <devices>; libvirt looks for {} in /dev/shm -->\n{}", c.name,
                       c.windows > 1 ? "the files" : "the file", elements);
}

std::string proxmox(const VmConfig& c) {
    return fmt::format(
        "# /etc/pve/qemu-server/VMID.conf. Not Proxmox's own `ivshmem:`, which makes a file and deletes it with the "
        "VM.\n"
        "args: {}\n",
        qemu_line(c));
}

std::string incus(const VmConfig& c) {
    return fmt::format("incus config set {0} raw.qemu='{1}'\nincus config set {0} raw.apparmor='{2} rw,'\n", c.name,
                       qemu_line(c), c.interrupts ? c.socket : c.region);
}

// KubeVirt has no such device: a hook adds it to the domain. The hook's protocol: `onDefineDomain --vmi JSON --domain
// XML` prints the domain (github.com/kubevirt/kubevirt, cmd/sidecars/README.md).
constexpr auto hook = R"sh(#!/bin/sh
# onDefineDomain --vmi JSON --domain XML: prints the domain with the region's device.
while [ $# -gt 0 ]; do
    case $1 in
        --domain) domain=$2; shift ;;
        --vmi) shift ;;
    esac
    shift
done
case $domain in
    *"<shmem name='{0}'>"*) printf '%s\n' "$domain"; exit ;;
    *"</devices>"*) ;;
    *) echo "barcuda: onDefineDomain was given no domain with devices (--domain)" >&2; exit 1 ;;
esac
printf '%s' "${{domain%%</devices>*}}"
cat << 'DEVICE'
{1}DEVICE
printf '%s\n' "</devices>${{domain#*</devices>}}"
)sh";

std::string kubevirt(const VmConfig& c) {
    const std::string script = fmt::format(hook, c.region.substr(c.region.rfind('/') + 1), shmem(c));
    std::string block;
    for (std::size_t at = 0, end; at < script.size(); at = end + 1) {
        end = script.find('\n', at);
        block += "    " + script.substr(at, end - at) + "\n";
    }
    return fmt::format(
        "# KubeVirt's feature gate Sidecar must be on, and on the node `barcuda-device-plugin --vms` run "
        "(docs/containers.md).\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: barcuda-{0}\ndata:\n  barcuda.sh: |\n{1}"
        "---\n# Of the VirtualMachineInstance, or in spec.template of the VirtualMachine:\nmetadata:\n  annotations:\n"
        "    hooks.kubevirt.io/hookSidecars: '[{{\"args\": [\"--version\", \"v1alpha2\"], \"configMap\": {{\"name\": "
        "\"barcuda-{0}\", \"key\": \"barcuda.sh\", \"hookPath\": \"/usr/bin/onDefineDomain\"}}}}]'\n"
        "spec:\n  evictionStrategy: None\n  domain:\n    resources:\n      limits:\n        {2}: \"1\"\n",
        c.name, block, container::vm_resource);
}

// These have no ivshmem, but virtio-pmem, as their own pages say: Cloud Hypervisor's `--pmem`, crosvm's book, and
// Firecracker's page on pmem. Without a size the file's own holds. None of them runs without KVM.
std::string other_monitor(const VmConfig& c) {
    if (c.manager == "cloud-hypervisor") return fmt::format("--pmem file={},discard_writes=off\n", c.region);
    if (c.manager == "crosvm") return fmt::format("--pmem {}\n", c.region);
    return fmt::format(
        "\"pmem\": [\n    {{\n        \"id\": \"barcuda\",\n        \"path_on_host\": \"{}\",\n"
        "        \"root_device\": false,\n        \"read_only\": false\n    }}\n]\n",
        c.region);
}
bool is_other_monitor(const std::string& manager) {
    return manager == "cloud-hypervisor" || manager == "crosvm" || manager == "firecracker";
}

// What of --windows cannot be; empty: nothing.
std::string check_windows(const VmConfig& c) {
    constexpr std::uint64_t gib = 1ull << 30;
    if (c.windows == 0) return {};
    if (c.manager != "libvirt" && c.manager != "qemu" && c.manager != "proxmox")
        return fmt::format("--windows: for libvirt, qemu and proxmox, not for {}", c.manager);
    if (c.interrupts || c.pmem)
        return "virtio-win's driver takes ivshmem-plain, and both sides poll: leave out --doorbell and --virtio-pmem";
    if (!c.region.empty()) return "--windows names a region for each device: leave out --region";
    if (c.size != gib && c.size != 2 * gib) return "a Windows guest's device has 1 or 2 GiB: --size 1G or 2G";
    return {};
}

// Prints what to add to a VM, for its manager.
int vm_config(VmConfig c) {
    if (c.size == 0) c.size = (c.windows ? 1ull : 4ull) << 30;
    if (const std::string wrong = check_windows(c); !wrong.empty()) return complain("vm-config", wrong);
    if (c.region.empty()) c.region = c.manager == "kubevirt" ? container::in_kubevirt : container::usual_region(c.name);
    if (c.socket.empty()) c.socket = fmt::format("/run/barcuda/{}/doorbell", c.name);
    if (c.interrupts && c.suspends)
        return complain("vm-config", "QEMU cannot save a device with interrupts: leave out --doorbell or --suspend");
    if (c.interrupts && c.manager == "kubevirt")
        return complain("vm-config", "a KubeVirt VM polls: leave out --doorbell");
    if (c.pmem && c.manager == "kubevirt")
        return complain("vm-config", "KubeVirt has no virtio-pmem: leave out --virtio-pmem");
    if (!c.interrupts && !c.pmem && (c.manager == "libvirt" || c.manager == "kubevirt") &&
        !c.region.starts_with("/dev/shm/"))
        return complain("vm-config", fmt::format("libvirt looks for {} in /dev/shm; use --doorbell, which gives it the "
                                                 "memory by a socket",
                                                 c.region));
    if (is_other_monitor(c.manager)) {
        if (c.interrupts) return complain("vm-config", c.manager + " has virtio-pmem alone: leave out --doorbell");
        fmt::print(stderr, "barcuda vm-config: for virtio-pmem, as {}'s own pages describe it; this has not been run\n",
                   c.manager);
        fmt::print("{}", other_monitor(c));
    }
    if (c.manager == "qemu") fmt::print("{}\n", qemu_line(c));
    if (c.manager == "libvirt") fmt::print("{}", libvirt(c));
    if (c.manager == "proxmox") fmt::print("{}", proxmox(c));
    if (c.manager == "incus") fmt::print("{}", incus(c));
    if (c.manager == "kubevirt") fmt::print("{}", kubevirt(c));
    return 0;
}

}  // namespace

std::vector<std::string> qemu_options(const VmConfig& c) {
    if (c.interrupts)
        return {"-chardev", fmt::format("socket,id={},path={}", c.id, c.socket), "-device",
                fmt::format("ivshmem-doorbell,chardev={},vectors=1", c.id)};
    std::vector<std::string> words = {
        "-object",
        fmt::format("memory-backend-file,id={},share=on,mem-path={},size={}", c.id, c.region, size_in(c.size)),
        "-device", fmt::format("{},memdev={}", c.pmem ? "virtio-pmem-pci" : "ivshmem-plain", c.id)};
    if (c.suspends && !c.pmem) words.back() += ",master=on";
    if (c.pmem)
        words.insert(words.begin(),
                     {"-m", fmt::format("{},slots=1,maxmem={}", size_in(c.memory), size_in(most_memory(c)))});
    return words;
}

void add_vm_config(App& app) {
    const auto options = std::make_shared<VmConfig>();
    options->size = 0;  // the default, which depends on the guest
    const Command command =
        app.add("vm-config", "on a host: print what to add to a VM", [options] { return vm_config(*options); });
    command.add_choice("manager", "the program that manages the VM", "for ",
                       {"libvirt", "qemu", "proxmox", "incus", "kubevirt", "cloud-hypervisor", "crosvm", "firecracker"},
                       [options = options.get()](const char* name) { options->manager = name; });
    command.add_option("NAME", options->name, "of the VM, and of its unit barcuda-bridge@NAME")
        .required()
        .check(check_name);
    command.add_option("--region", options->region, "the file (default: /dev/shm/barcuda-NAME)");
    command.add_option("--size", options->size, "the region's size, as the bridge has it; with K, M or G")
        .as_size()
        .default_str("4G, or 1G with --windows");
    command
        .add_option(
            "--windows", options->windows,
            "for a Windows guest: this many devices, each with a region and a bridge (barcuda-bridge@NAME-1 and "
            "so on), one for each CUDA process that runs at the same time")
        .range(1, 16);
    const Option doorbell =
        command.add_flag("--doorbell", options->interrupts, "with interrupts, through the bridge's socket");
    command
        .add_flag("--virtio-pmem", options->pmem,
                  "as memory, which a service in the guest gives to programs (`barcuda guest serve`), without a kernel "
                  "module of ours")
        .excludes(doorbell);
    command.add_flag("--suspend", options->suspends,
                     "for `barcuda suspend --qmp`: QEMU may save the device. Never save this VM by QEMU or its manager "
                     "alone, which would take the region for its own");
    add_size(command, "--memory", options->memory, "the VM's own memory, with --virtio-pmem; with K, M or G");
    command.add_option("--socket", options->socket, "which (default: /run/barcuda/NAME/doorbell)");
}

}  // namespace barcuda
