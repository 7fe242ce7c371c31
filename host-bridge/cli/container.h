// SPDX-License-Identifier: Apache-2.0
// container.h: what a container gets so that its programs use a bridge's GPUs. `barcuda cdi` and the device plugin for
// Kubernetes each write that in their own form. CDI is the Container Device Interface,
// github.com/cncf-tags/container-device-interface (SPEC.md, version 0.5.0).
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cli/installation.h"

namespace barcuda::container {

constexpr auto kind = "barcuda.dev/gpu";  // CDI's names are KIND=DEVICE; pods in Kubernetes request it, too
// The resource for KubeVirt's VMs: a bridge's region. A VM's pod finds it in /dev/shm, where libvirt looks for it.
constexpr auto vm_resource = "barcuda.dev/vm", in_kubevirt = "/dev/shm/barcuda";

struct Mount {
    std::string from, to;  // on the host, in the container
    bool read_only;
};

struct Edits {
    std::vector<Mount> mounts;
    std::map<std::string, std::string> variables;
    std::vector<std::string> nodes;  // devices
};

Edits library(const Installation& here);  // for every device: Barcuda's library, in front of programs
// For every device that has NVIDIA's name: the command nvidia-smi, as NVIDIA's own tool gives it to containers.
Mount nvidia_smi(const Installation& here);
Edits region(const std::string& file);            // of a bridge on this host
Edits node(const std::string& path);              // the module's device, in a guest
std::string usual_region(const std::string& vm);  // of the unit barcuda-bridge@VM

// A specification, as in /etc/cdi. `of_kind`: VENDOR/CLASS, the first part of the devices' names.
nlohmann::json specification(const std::map<std::string, Edits>& devices, const Edits& all,
                             const std::string& of_kind = kind);

}  // namespace barcuda::container
