// SPDX-License-Identifier: Apache-2.0
// qemu.h: a VM as its QEMU's monitor knows it (QMP), or libvirt, which passes on what a monitor is told: what `barcuda
// suspend` and `barcuda wake` do with the machine itself. The region is never in what QEMU saves: QEMU sees no write of
// a GPU or of a worker.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda {

class Qemu {
  public:
    Qemu();
    ~Qemu();
    Qemu(const Qemu&) = delete;
    Qemu& operator=(const Qemu&) = delete;

    // Connects to QEMU's monitor, a socket (-qmp unix:SOCKET,server=on,wait=off).
    Failure connect(const std::string& socket);
    // The domain's monitor, through virsh.
    Failure use_domain(const std::string& domain);
    explicit operator bool() const;
    // A domain as libvirt starts it again.
    Failure describe(std::string& domain) const;
    // Lets libvirt start such a domain, which waits for its guest.
    Failure create(const std::string& name, const std::string& domain);

    // ---- to save it
    // Whether this machine maps that region, and what else QEMU would leave out. Changes nothing.
    Failure check(const std::string& region);
    // The guest is stopped from now on.
    Failure stop();
    const std::string& state() const { return state_; }  // before that: running or paused
    // The guest runs until QEMU has written nearly all of it, and is then stopped.
    Failure stop_late();
    // QEMU writes the machine, as the QEMU that reads it must have it (suspended/vm_stream.h).
    using Sink = std::function<Failure(std::span<const std::byte>)>;
    Failure save(const Sink& to);
    // It is as it was before `stop`.
    Failure go_on();
    // The machine's end: all of it was saved.
    void quit();

    // ---- to wake it
    // QEMU, which was started with `-incoming defer`, begins to read the machine.
    Failure load(const File& from);
    // After that: whether all was read. The guest is stopped.
    Failure loaded();
    // `state`: which the guest is to have.
    Failure run(const std::string& state);

    // When the guest stopped or went on last, as this QEMU said: microseconds, 0: not yet.
    std::int64_t stopped_at() const;
    std::int64_t went_on_at() const;

  private:
    struct Talk;
    Failure look_at_state();
    Failure begin_to_save(const File& to);
    Failure migrated(const char* what);
    Failure ignore_shared(bool yes);

    std::unique_ptr<Talk> talk_;
    std::string state_;
    std::vector<std::string> memories_;
    std::uint64_t size_ = 0;
    bool stopped_ = false, ignores_ = false;
};

}  // namespace barcuda
