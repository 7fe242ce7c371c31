// SPDX-License-Identifier: Apache-2.0
// files_message.h: a message with several descriptors (base/message.h has those with one).
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "base/message.h"

namespace barcuda {

constexpr std::size_t most_files = 4;

// True: the whole message is on its way. It does not wait.
bool send_files(int socket, const void* message, std::size_t bytes, const std::vector<File>& files);
// As recv(). `files`: those that came with the message.
ssize_t receive_files(int socket, void* message, std::size_t bytes, std::vector<File>& files);

}  // namespace barcuda
