// SPDX-License-Identifier: Apache-2.0
// qemu.h: a VM as its QEMU's monitor knows it (QMP), or libvirt, which passes on what a monitor is told: what `barcuda
// suspend` and `barcuda wake` do with the machine itself. The region is never in what QEMU saves: QEMU sees no write of
// a GPU or of a worker.
#pragma once
#include <cstdint>
#include <memory>
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
    // The guest stands still from now on.
    Failure stop();
    const std::string& state() const { return state_; }  // before that: running or paused
    // QEMU begins to write the machine to this pipe, or socket, and closes it at the end.
    Failure save(const File& to);
    // After that: whether all was written.
    Failure saved();
    // For the stream's blocks (suspended/vm_stream.h).
    const std::vector<std::string>& memories() const { return memories_; }
    std::uint64_t size() const { return size_; }
    // It is as it was before `stop`.
    Failure go_on();
    // The machine's end: all of it was saved.
    void quit();

    // ---- to wake it
    // QEMU, which was started with `-incoming defer`, begins to read the machine.
    Failure load(const File& from);
    // After that: whether all was read. `state`: which the guest is to have.
    Failure loaded(const std::string& state);

  private:
    struct Talk;
    Failure migrated(const char* what);
    Failure ignore_shared(bool yes);

    std::unique_ptr<Talk> talk_;
    std::string state_;
    std::vector<std::string> memories_;
    std::uint64_t size_ = 0;
    bool stopped_ = false, ignores_ = false;
};

}  // namespace barcuda
