// SPDX-License-Identifier: Apache-2.0
// transport.h: how `barcuda move` reaches `barcuda receive`: a command that carries bytes in both directions, ssh or
// one that the user names. Barcuda listens at no address.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/suspended/stream.h"

namespace barcuda {

struct Destination {
    std::vector<std::string> words;  // the command line that speaks with `barcuda receive`
    std::string called;              // for people

    // ssh://[USER@]HOST[:PORT]/NAME; `qmp`: the monitor of the QEMU there, or empty; `more`: options of the bridge
    // there.
    static Failure of_url(const std::string& url, const std::string& qmp, const std::vector<std::string>& more,
                          Destination& to);
    // Words for a shell of this host.
    static Destination of_command(const std::string& command);
};

// A running transport. It ends with this object.
class Transport {
  public:
    ~Transport();
    Failure start(const Destination& to);
    Stream& stream() { return *stream_; }

  private:
    pid_t pid_ = -1;
    std::unique_ptr<Stream> stream_;
};

}  // namespace barcuda
