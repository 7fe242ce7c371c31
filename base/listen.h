// SPDX-License-Identifier: Apache-2.0
// listen.h: a socket at an address that a person has written: HOST:PORT (numbers: 127.0.0.1:9788, [::1]:9788), or a path.
#pragma once
#include <string>

#include "base/message.h"

namespace barcuda {

// Nothing, with `error`: that address cannot be had, and why. A socket that somebody has left at that path goes; a new one is its
// user's and group's, less the umask.
File listen_at(const std::string& address, std::string& error);

}  // namespace barcuda
