// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/kubernetes/plugin.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/log.h"
#include "device_plugin.grpc.pb.h"

namespace barcuda::kubernetes {
namespace {

using grpc::Status;
using grpc::StatusCode;
constexpr std::chrono::seconds patience{5};  // for the kubelet
constexpr auto api = "v1beta1", healthy = "Healthy", unhealthy = "Unhealthy";

template <class Strings> std::vector<std::string> vector_of(const Strings& strings) {
    return {strings.begin(), strings.end()};
}

}  // namespace

class Plugin::Service final : public v1beta1::DevicePlugin::Service {
  public:
    Service(const Options& options, const Shares& shares) : options_(options), shares_(shares) {}

    // Makes each watcher send the list again; `end`: and end.
    void wake(bool end) {
        const std::lock_guard lock(mutex_);
        ++changes_;
        ended_ = end;
        changed_.notify_all();
    }

    Status GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                  v1beta1::DevicePluginOptions* to) override {
        to->set_preferred_allocation_available(true);
        return Status::OK;
    }

    Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                        grpc::ServerWriter<v1beta1::ListAndWatchResponse>* to) override {
        constexpr std::chrono::milliseconds look{500};  // how often to check that the kubelet is still there
        std::optional<std::vector<Share>> told;
        std::unique_lock lock(mutex_);
        while (!ended_ && !context->IsCancelled()) {
            const std::uint64_t seen = changes_;
            lock.unlock();
            if (auto now = shares_.list(); now != told) {
                v1beta1::ListAndWatchResponse all;
                for (const Share& share : now) {
                    auto* const device = all.add_devices();
                    device->set_id(share.id);
                    device->set_health(share.healthy ? healthy : unhealthy);
                }
                if (!to->Write(all)) return Status::OK;
                told = std::move(now);
            }
            lock.lock();
            changed_.wait_for(lock, look, [&] { return ended_ || changes_ != seen; });
        }
        return Status::OK;
    }

    Status GetPreferredAllocation(grpc::ServerContext*, const v1beta1::PreferredAllocationRequest* from,
                                  v1beta1::PreferredAllocationResponse* to) override {
        for (const auto& wish : from->containers()) {
            auto* const answer = to->add_containers();
            for (const std::string& id : shares_.prefer(vector_of(wish.available()), vector_of(wish.must_include()),
                                                        static_cast<std::size_t>(std::max(wish.size(), 0))))
                answer->add_devices(id);
        }
        return Status::OK;
    }

    Status Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* from,
                    v1beta1::AllocateResponse* to) override {
        for (const auto& wish : from->containers()) {
            std::string error;
            const auto chosen = shares_.choose(vector_of(wish.devices()), error);
            if (!chosen) {
                log::warn("refused: {}", error);
                return Status(StatusCode::FAILED_PRECONDITION, error);
            }
            auto* const answer = to->add_containers();
            if (options_.vms) {
                add({chosen->region, container::in_kubevirt, false}, *answer);
                continue;
            }
            for (const container::Edits& edits :
                 {container::library(installation()), container::region(chosen->region)}) {
                for (const container::Mount& mount : edits.mounts) add(mount, *answer);
                for (const auto& [name, value] : edits.variables) (*answer->mutable_variables())[name] = value;
            }
            if (!options_.cdi.empty())
                answer->add_cdi_devices()->set_name(fmt::format("{}={}", container::kind, chosen->name));
        }
        return Status::OK;
    }

    Status PreStartContainer(grpc::ServerContext*, const v1beta1::PreStartContainerRequest*,
                             v1beta1::PreStartContainerResponse*) override {
        return Status::OK;
    }

  private:
    static void add(const container::Mount& mount, v1beta1::ContainerAllocateResponse& to) {
        auto* const it = to.add_mounts();
        it->set_host_path(mount.from);
        it->set_container_path(mount.to);
        it->set_read_only(mount.read_only);
    }

    const Options& options_;
    const Shares& shares_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t changes_ = 0;
    bool ended_ = false;
};

Plugin::Plugin(Options options, const Shares& shares)
    : options_(std::move(options)),
      endpoint_(options_.vms ? "barcuda-vm.sock" : "barcuda.sock"),
      socket_(options_.folder + "/" + endpoint_),
      kubelet_(options_.folder + "/kubelet.sock"),
      shares_(shares) {}

Plugin::~Plugin() {
    if (service_) service_->wake(true);
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + patience);
    unlink(socket_.c_str());
}

void Plugin::say(const std::string& what) {
    if (what != said_) log::warn("{}", what);
    said_ = what;
}

bool Plugin::listen() {
    if (service_) service_->wake(true);
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + patience);
    server_.reset();
    unlink(socket_.c_str());
    service_ = std::make_unique<Service>(options_, shares_);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (!server_) say(fmt::format("{}: cannot listen there", socket_));
    return server_ != nullptr;
}

bool Plugin::enlist() {
    grpc::ChannelArguments own;  // a new connection, because an old one may lead to a kubelet that has ended
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto kubelet = v1beta1::Registration::NewStub(
        grpc::CreateCustomChannel("unix:" + kubelet_, grpc::InsecureChannelCredentials(), own));
    v1beta1::RegisterRequest request;
    request.set_version(api);
    request.set_endpoint(endpoint_);
    request.set_resource_name(options_.resource);
    request.mutable_options()->set_preferred_allocation_available(true);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1beta1::Empty nothing;
    const Status status = kubelet->Register(&context, request, &nothing);
    if (!status.ok())
        say(fmt::format("the kubelet at {} refuses {}: {}", kubelet_, options_.resource, status.error_message()));
    return status.ok();
}

void Plugin::write_specification() const {
    std::map<std::string, container::Edits> devices;
    for (const auto& [name, region] : shares_.regions()) devices[name] = container::region(region);
    const std::string file = options_.cdi + "/barcuda.json", fresh = options_.cdi + "/.barcuda.json.new";
    std::ofstream to(fresh);  // a reader finds the old file or the new one
    to << container::specification(devices, container::library(installation())).dump(2) << '\n';
    to.close();
    if (!to || rename(fresh.c_str(), file.c_str()) != 0)
        log::error("{}: cannot write the specification of devices: {}", file, strerror(errno));
}

void Plugin::tend(bool changed) {
    if (changed && !options_.cdi.empty()) write_specification();
    if (changed && service_) service_->wake(false);
    struct stat kubelet = {};
    struct stat ours = {};
    if (stat(kubelet_.c_str(), &kubelet) != 0) {
        registered_with_.reset();
        return say(fmt::format("{}: no kubelet: {}; waiting for it", kubelet_, strerror(errno)));
    }
    const auto& was = registered_with_;
    const bool listens = server_ && stat(socket_.c_str(), &ours) == 0;
    if (listens && was && was->device == kubelet.st_dev && was->inode == kubelet.st_ino &&
        was->since.tv_sec == kubelet.st_ctim.tv_sec && was->since.tv_nsec == kubelet.st_ctim.tv_nsec)
        return;
    if ((!listens && !listen()) || !enlist()) return;
    registered_with_ = {kubelet.st_dev, kubelet.st_ino, kubelet.st_ctim};
    said_.clear();
    log::info("registered {} with the kubelet at {}", options_.resource, kubelet_);
}

}  // namespace barcuda::kubernetes
