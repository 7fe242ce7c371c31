// SPDX-License-Identifier: Apache-2.0
// barcuda-device-plugin: lets Kubernetes give the GPUs of a node's bridges to containers, or their regions to VMs of
// KubeVirt.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/cli/app.h"
#include "base/log.h"
#include "host-bridge/kubernetes/plugin.h"
#include "host-bridge/watch/region_file.h"

int main(int argc, char** argv) {
    using namespace barcuda;
    CLI::App app{"Lets Kubernetes give the GPUs of this node's bridges to containers.", "barcuda-device-plugin"};
    kubernetes::Options options;
    unsigned each = 8;
    std::set<std::string> names;
    std::string level = "info";
    app.add_option("--shares", each, "how many containers may use a bridge at a time")
        ->check(CLI::Range(1u, 256u))
        ->capture_default_str();
    app.add_flag("--vms", options.vms,
                 "for KubeVirt: bridges that wait for a VM, one pod each; the pod finds the region at /dev/shm/barcuda "
                 "(without it: bridges with --no-vm, for containers)");
    std::vector<std::string> users;
    app.add_option("--user", users,
                   "a user whose bridges are trusted, by name or number, besides root and barcuda; repeatable");
    app.add_option("--bridge", names, "only this bridge; repeatable (default: all)");
    app.add_option(
        "--resource", options.resource,
        fmt::format("what pods ask for (default: {}, with --vms {})", container::kind, container::vm_resource));
    app.add_option("--cdi", options.cdi,
                   "the folder for a CDI specification (/var/run/cdi), by which containers get devices by name; mounts "
                   "and variables, for kubelets before 1.28, are sent in any case")
        ->check(CLI::ExistingDirectory);
    app.add_option("--kubelet", options.folder, "the folder of its socket")->capture_default_str();
    app.add_option("--log-level", level, "trace, debug, info, warn, err, critical or off")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "err", "critical", "off"}))
        ->envname("BARCUDA_LOG")
        ->capture_default_str();
    app.set_version_flag("--version", BARCUDA_VERSION);
    int status = 0;
    if (!understood(app, argc, argv, status)) return status;
    if (options.resource.empty()) options.resource = options.vms ? container::vm_resource : container::kind;
    log::start(stderr, "barcuda-device-plugin", level);
    if (options.vms && !options.cdi.empty()) {
        log::critical("--cdi is for containers; with --vms a region is mounted");
        return wrong_usage;
    }
    std::string unknown;
    const watch::Doors doors({}, watch::believed_users(users, unknown));
    if (!unknown.empty()) {
        log::critical("--user {}", unknown);
        return wrong_usage;
    }
    if (const std::string lacks = check(installation()); !options.vms && !lacks.empty()) {
        log::critical("{}", lacks);
        return 1;
    }

    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, nullptr);  // also blocked in the server's threads
    signal(SIGPIPE, SIG_IGN);
    kubernetes::Shares shares(each, options.vms, std::move(names));
    kubernetes::Plugin plugin(options, shares);
    constexpr timespec second{1, 0};
    do plugin.tend(shares.update(watch::look(false, doors)));
    while (sigtimedwait(&ending, nullptr, &second) < 0);
    return 0;
}
