// SPDX-License-Identifier: Apache-2.0
// detach.cc: the library leaves the process. No other thread runs any more, and no thread waits for an answer: the
// channel is given back, which the host would not see by itself (it sees no processes of this system).
#include "guest-allocator/client/client.h"

namespace barcuda::guest {
namespace {

[[gnu::destructor]] void leave() {
    Client* const client = Client::current();
    if (!client) return;
    Channel channel = client->channel();
    client->region().close_channel(channel);
}

}  // namespace
}  // namespace barcuda::guest
