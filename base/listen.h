// SPDX-License-Identifier: Apache-2.0
// listen.h: a socket at an address that a person has written: HOST:PORT (numbers: 127.0.0.1:9788, [::1]:9788), or a
// path.
#pragma once
#include <string>

#include "base/message.h"

namespace barcuda {

// Returns nothing, with the reason in `error`, if the address cannot be used. Removes a socket that an earlier process
// left at that path; the new socket belongs to its user and group, less the umask.
File listen_at(const std::string& address, std::string& error);

}  // namespace barcuda
