// SPDX-License-Identifier: Apache-2.0
// client_copies.h: copies from and to a client's memory, each in the context that has the memory, and the host memory
// for them. What is in the store comes from there, and stays there.
#pragma once
#include <span>
#include <vector>

#include "host-bridge/worker/memory/store.h"
#include "host-bridge/worker/memory_bytes.h"
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

// Of the client's births, in the order of addresses.
std::vector<Contents> contents_of_memory(Session& session);

// A conveyor's room for copies, registered if the driver can. It is shared memory, which does not count as the worker's
// own.
class CopyRoom {
  public:
    CopyRoom(const Driver& driver, std::span<std::byte> room);
    ~CopyRoom();
    CopyRoom(const CopyRoom&) = delete;

  private:
    const Driver& driver_;
    std::byte* at_ = nullptr;  // null: it is not registered
};

}  // namespace barcuda
