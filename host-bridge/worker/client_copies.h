// SPDX-License-Identifier: Apache-2.0
// client_copies.h: copies from and to a client's memory, each in the context that has the memory, and the host memory
// for them. What is in the store comes from there, and stays there.
#pragma once
#include <span>

#include "host-bridge/worker/memory/store.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda {

// While it lives, contexts are switched.
class ClientCopies : public Copies {
  public:
    explicit ClientCopies(Session& session)
        : session_(session), visit_(session.contexts()), copies_(session.driver()) {}
    CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) override;
    CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) override;
    CUresult end_batch() override { return copies_.end_batch(); }
    CUresult finish() override { return copies_.finish(); }

  private:
    CUresult enter(std::uint64_t device);
    CUcontext context_of(std::uint64_t address);

    Session& session_;
    const Contexts::Visit visit_;
    DriverCopies copies_;
};

// Memory of the host for copies, registered if the driver can. It is mapped as shared memory, which does not count as
// the worker's own.
class CopyRoom {
  public:
    static constexpr std::size_t bytes = 32 << 20;
    explicit CopyRoom(const Driver& driver);
    ~CopyRoom();
    CopyRoom(const CopyRoom&) = delete;
    std::span<std::byte> all() const { return at_ ? std::span(at_, bytes) : std::span<std::byte>(); }

  private:
    const Driver& driver_;
    std::byte* at_ = nullptr;
    bool registered_ = false;
};

}  // namespace barcuda
