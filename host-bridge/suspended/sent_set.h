// SPDX-License-Identifier: Apache-2.0
// sent_set.h: a set that goes through a stream (stream.h) into another host's folder, as it is written.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "host-bridge/suspended/set.h"
#include "host-bridge/suspended/stream.h"

namespace barcuda {

class SetSender : public SetPlace {
  public:
    // `may_be_there` becomes true when the destination may have all of it. (It may, if its answer is lost.)
    SetSender(Stream& to, std::atomic<bool>& may_be_there) : to_(to), may_be_there_(may_be_there) {}

    // Sends frames of any part while programs change them. A frame with the same bytes is not sent again later, even as
    // part of another file.
    Failure send_early(const std::function<Failure(FrameWriter&)>& fill);

    FrameWriter::Known known(const std::string& name) override;
    Failure make(const std::string& name, Sink& sink) override;
    Failure finish(const std::string& name, std::uint64_t bytes, const Digest& digest) override;
    // Returns when the destination has all of it.
    Failure commit(Description description) override;
    void take_back() override {}  // the command says so (cli/move.cc)

  private:
    struct Frame {
        std::uint32_t number;
        std::uint32_t packed;  // the length of what was sent
    };
    Stream& to_;
    std::atomic<bool>& may_be_there_;
    std::mutex mutex_;
    const SecretHash hash_;  // a client must not be able to make a frame that is taken for another client's
    std::map<std::string, Frame> early_;  // by the hash of their bytes
    std::uint32_t sent_early_ = 0;
    Digest early_digest_;
    std::map<std::string, std::uint32_t> numbers_;
    std::vector<Description::Part> parts_;
};

// Writes what comes to a folder, up to its description; every part is compared with its hash. `description`: what the
// set is. Behind it the folder is whole and has its name.
Failure receive_set(Stream& from, SetPlace& to, Description& description);

}  // namespace barcuda
