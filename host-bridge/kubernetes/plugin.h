// SPDX-License-Identifier: Apache-2.0
// plugin.h: the device plugin's side of the kubelet's protocol (device_plugin.proto): a socket beside the kubelet's.
// The kubelet asks there which devices exist and what a container with them needs. The kubelet empties its folder when
// it starts; then the plugin listens and registers again.
#pragma once
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "host-bridge/cli/container.h"
#include "host-bridge/kubernetes/shares.h"

namespace grpc {
class Server;
}

namespace barcuda::kubernetes {

struct Options {
    std::string folder = "/var/lib/kubelet/device-plugins";  // where the kubelet's socket is
    std::string resource;                                    // empty: the default
    std::string cdi;  // a folder for a specification; empty: containers get only variables and mounts
    bool vms = false;
};

class Plugin {
  public:
    Plugin(Options options, const Shares& shares);
    ~Plugin();

    // Call this once a second, and when shares have changed: listens and registers if necessary. Logs each complaint
    // once.
    void tend(bool changed);

  private:
    class Service;

    bool listen();
    bool enlist();  // registers with the kubelet
    void say(const std::string& what);
    void write_specification() const;

    const Options options_;
    const std::string endpoint_, socket_, kubelet_;
    const Shares& shares_;
    std::unique_ptr<Service> service_;
    std::unique_ptr<grpc::Server> server_;
    struct Seen {
        dev_t device;
        ino_t inode;
        timespec since;
    };
    std::optional<Seen> registered_with_;  // the kubelet's socket at that time
    std::string said_;
};

}  // namespace barcuda::kubernetes
