// SPDX-License-Identifier: Apache-2.0
// own_memory.cc: how much device memory this process uses in all. NVIDIA's NVML reports it for each process; the worker
// opens NVML when a client with a limit first needs it. The software GPU says it itself: its NVML would have to open
// files, which a worker cannot.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/monitor/sweep.h"
#include "host-bridge/worker/quota/quota.h"

namespace barcuda {
namespace {

class Nvml {
  public:
    explicit Nvml(const Driver& driver) : driver_(driver) {}

    std::optional<std::uint64_t> ask(CUdevice device, bool exact) {
        // A query takes NVIDIA's driver a part of a millisecond, during which it answers no other.
        constexpr std::chrono::milliseconds now_and_then{200};
        const auto now = std::chrono::steady_clock::now();
        if (const auto last = asked_.find(device); !exact && last != asked_.end() && now - last->second < now_and_then)
            return {};
        const std::optional<std::uint64_t> bytes = find(device);
        if (bytes) asked_[device] = now;
        return bytes;
    }

  private:
    std::optional<std::uint64_t> find(CUdevice device) {
        if (!tried_) {
            tried_ = true;
            const std::string error = host_.open(nvml_of(driver_.library));
            there_ = error.empty();
            if (!there_) log::warn("the driver's own memory is not counted, since NVML does not report it: {}", error);
        }
        if (!there_) return {};
        barcuda_device named{};
        CUuuid uuid{};
        if (!driver_.cuDeviceGetUuid_v2 || driver_.cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) return {};
        std::memcpy(named.uuid, uuid.bytes, sizeof named.uuid);
        nvml::Device& its = devices_[device];
        if (!its) its = host_.find(named);
        if (!its) return {};
        const auto users = host_.users(its);
        const auto own = std::ranges::find(users, static_cast<unsigned>(getpid()), &nvml::Host::Use::pid);
        if (own == users.end() || own->memory == nvml::value_not_available) return {};  // in a container, for example
        return own->memory;
    }

    const Driver& driver_;
    nvml::Host host_;
    bool tried_ = false, there_ = false;
    std::map<CUdevice, nvml::Device> devices_;
    std::map<CUdevice, std::chrono::steady_clock::time_point> asked_;
};

}  // namespace

OwnMemory own_memory(const Driver& driver, bool software) {
    if (!software)
        return
            [nvml = std::make_shared<Nvml>(driver)](CUdevice device, bool exact) { return nvml->ask(device, exact); };
    return [ask = driver.own_memory](CUdevice device, bool) -> std::optional<std::uint64_t> {
        return ask ? std::optional(ask(device)) : std::nullopt;
    };
}

}  // namespace barcuda
