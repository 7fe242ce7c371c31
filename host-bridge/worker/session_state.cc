// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session_state.h"

namespace barcuda {

std::optional<SessionState> take_state(ChannelReader& reader, Supply& supply, Session& session) {
    reader.flush();
    if (!reader.quiet() || !reader.lie().empty() || !session.quiet()) return {};
    if (session.print_search().looks() || session.code().has_parts()) return {};  // code that is not loaded yet
    // The supply last: its clerk answers until then, and adopts nothing behind that.
    return SessionState{reader.state(), supply.state(), session.state()};
}

}  // namespace barcuda
