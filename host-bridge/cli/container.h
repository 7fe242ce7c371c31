// SPDX-License-Identifier: Apache-2.0
// container.h: what a container is given so that its programs use a bridge's GPUs. `barcuda cdi` and the device plugin
// for Kubernetes each put that into a form of their own. Source of CDI's: the Container Device Interface,
// github.com/cncf-tags/container-device-interface (SPEC.md, version 0.5.0).
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cli/installation.h"

namespace barcuda::container {

constexpr auto kind = "barcuda.dev/gpu";  // of CDI's names: KIND=DEVICE; and what Kubernetes' pods ask for
// A bridge's region, which Kubernetes counts for KubeVirt's VMs, and where a VM's pod finds it: libvirt looks for it in
// /dev/shm.
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

Edits library(const Installation& here);          // for whatever device: Barcuda's library, in front of programs
Edits region(const std::string& file);            // of a bridge of this host
Edits node(const std::string& path);              // of the module's device, in a guest
std::string usual_region(const std::string& vm);  // of the unit barcuda-bridge@VM

// A specification, as in /etc/cdi.
nlohmann::json specification(const std::map<std::string, Edits>& devices, const Edits& all);

}  // namespace barcuda::container
