// SPDX-License-Identifier: Apache-2.0
// kubelet FOLDER: the kubelet's side of its protocol with device plugins (host-bridge/kubernetes/device_plugin.proto),
// for test_device_plugin.py. As a kubelet does, it empties its folder when it starts, serves kubelet.sock there, asks a
// plugin that registers for its options, and watches its devices. What it hears it prints, a line each; what it is to
// ask is on standard input:
//   allocate ID...         a container's devices       prefer SIZE ID...      which of these
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "device_plugin.grpc.pb.h"

namespace {

using namespace v1beta1;
std::mutex printing, plugging;
std::unique_ptr<DevicePlugin::Stub> plugin;
std::vector<std::thread> watchers;

void print(const std::string& line) {
    const std::lock_guard lock(printing);
    std::cout << line << std::endl;
}

void watch(DevicePlugin::Stub* of) {
    grpc::ClientContext context;
    const auto lists = of->ListAndWatch(&context, {});
    ListAndWatchResponse list;
    while (lists->Read(&list)) {
        std::string line = "devices";
        for (const Device& d : list.devices()) line += " " + d.id() + "=" + d.health();
        print(line);
    }
    print("the plugin has gone");
}

class Kubelet final : public Registration::Service {
  public:
    explicit Kubelet(std::string folder) : folder_(std::move(folder)) {}
    grpc::Status Register(grpc::ServerContext*, const RegisterRequest* from, Empty*) override {
        if (from->version() != "v1beta1") return {grpc::StatusCode::INVALID_ARGUMENT, "another version"};
        print("registered " + from->resource_name() + " at " + from->endpoint());
        const std::lock_guard lock(plugging);
        plugin = DevicePlugin::NewStub(
            grpc::CreateChannel("unix:" + folder_ + "/" + from->endpoint(), grpc::InsecureChannelCredentials()));
        watchers.emplace_back([] {
            grpc::ClientContext context;
            context.set_wait_for_ready(true);
            DevicePluginOptions options;
            if (const auto status = plugin->GetDevicePluginOptions(&context, {}, &options); !status.ok())
                return print("no options: " + status.error_message());
            print(options.preferred_allocation_available() ? "it prefers some" : "it prefers none");
            watch(plugin.get());
        });
        return grpc::Status::OK;
    }

  private:
    const std::string folder_;
};

void allocate(const std::vector<std::string>& ids) {
    grpc::ClientContext context;
    AllocateRequest request;
    AllocateResponse answer;
    auto* const wish = request.add_containers();
    for (const std::string& id : ids) wish->add_devices(id);
    if (const auto status = plugin->Allocate(&context, request, &answer); !status.ok())
        return print("refused " + status.error_message());
    for (const auto& container : answer.containers()) {
        for (const auto& [name, value] : container.variables()) print("variable " + name + "=" + value);
        for (const auto& m : container.mounts())
            print("mount " + m.host_path() + " " + m.container_path() + (m.read_only() ? " ro" : " rw"));
        for (const auto& d : container.cdi_devices()) print("cdi " + d.name());
    }
    print("allocated");
}

void prefer(int size, const std::vector<std::string>& ids) {
    grpc::ClientContext context;
    PreferredAllocationRequest request;
    PreferredAllocationResponse answer;
    auto* const wish = request.add_containers();
    for (const std::string& id : ids) wish->add_available(id);
    wish->set_size(size);
    if (const auto status = plugin->GetPreferredAllocation(&context, request, &answer); !status.ok())
        return print("refused " + status.error_message());
    std::string line = "preferred";
    for (const std::string& id : answer.containers(0).devices()) line += " " + id;
    print(line);
}

}  // namespace

int main(int, char** argv) {
    const std::string folder = argv[1];
    for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry);
    Kubelet kubelet(folder);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder + "/kubelet.sock", grpc::InsecureServerCredentials());
    builder.RegisterService(&kubelet);
    const auto server = builder.BuildAndStart();
    if (!server) return 1;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string command, word;
        int size = 0;
        words >> command;
        if (command == "prefer") words >> size;
        std::vector<std::string> ids;
        while (words >> word) ids.push_back(word);
        if (command == "prefer") prefer(size, ids);
        else allocate(ids);
    }
    _exit(0);  // threads that watch go along
}
