// SPDX-License-Identifier: Apache-2.0
// upgrade_desk.h: how the bridge answers `barcuda upgrade` (between/upgrade_link.h): it opens the file, and tells its
// keeper to put the bridge of that file in its own place (keeper/upgrade.h). The keeper decides.
#pragma once
#include <sys/socket.h>

#include <string>

#include "base/failure.h"
#include "host-bridge/between/upgrade_link.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/bridge/numbers.h"

namespace barcuda {

class UpgradeDesk {
  public:
    UpgradeDesk(const Kept& kept, const Clients& clients) : kept_(kept), clients_(clients) {}
    void serve(const UpgradeRequest& request, UpgradeReply& reply, const ucred& by);

  private:
    Failure order(const UpgradeRequest& request, const std::string& program);
    Numbers in_use() const;

    const Kept& kept_;
    const Clients& clients_;
};

}  // namespace barcuda
