// SPDX-License-Identifier: Apache-2.0
// qemu.h: a VM as its QEMU's monitor knows it (QMP), or libvirt, which passes on what a monitor is told: what `barcuda
// suspend`, `wake`, `move`, `receive` and `hand-over` do with the machine itself. The region is never in what QEMU
// saves: QEMU sees no write of a GPU or of a worker.
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
    // What the guest does: running or paused.
    Failure look_at_state();
    // The guest is stopped from now on.
    Failure stop();
    const std::string& state() const { return state_; }  // before that
    // The guest runs until QEMU has written nearly all of it, and is then stopped.
    Failure stop_late();
    // QEMU writes the machine, as the QEMU that reads it must have it (suspended/vm_stream.h).
    using Sink = std::function<Failure(std::span<const std::byte>)>;
    Failure save(const Sink& to);
    // A process that has ended may have stopped and saved the guest, which had this state before.
    void take_over(const std::string& state);
    // It is as it was before `stop`.
    Failure go_on();
    // The machine's end: all of it was saved.
    void quit();

    // ---- to wake it
    // Whether QEMU waits for a guest: it was started with `-incoming defer`.
    Failure awaits_guest();
    // That QEMU begins to read the machine.
    Failure load(const File& from);
    // After that: whether all was read. The guest is stopped.
    Failure loaded();
    // `state`: which the guest is to have.
    Failure run(const std::string& state);
    // This QEMU gets the guest of the move with that number, and no other one. It keeps that in mind until it ends.
    Failure mark(const std::string& move);
    bool has_mark(const std::string& move);

    // When the guest stopped or went on last, as this QEMU said: microseconds, 0: not yet.
    std::int64_t stopped_at() const;
    std::int64_t went_on_at() const;

  private:
    struct Talk;
    Failure begin_to_save(const File& to);
    Failure migrated(const char* what);
    Failure migrate_our_way(bool yes);

    std::unique_ptr<Talk> talk_;
    std::string state_;
    std::vector<std::string> memories_;
    std::uint64_t size_ = 0;
    bool stopped_ = false, our_way_ = false;
};

}  // namespace barcuda
