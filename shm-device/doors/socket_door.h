// SPDX-License-Identifier: Apache-2.0
// socket_door.h: the socket of `barcuda guest serve`, which has the device and gives out files of its parts;
// shm-device/doors/service_messages.h has the messages. Nothing is asked for but by connecting and by the heap as it
// grows, which never overlap.
#pragma once
#include "shm-device/doors/door.h"
#include "shm-device/doors/service_messages.h"

namespace barcuda {

class SocketDoor final : public Door {
  public:
    explicit SocketDoor(const char* path);
    Error connect();

    Error map_header(const char** header) override;
    Error open_channel(const Tables& tables, Channel& channel) override;
    void close_channel(const Tables& tables, Channel& channel, Leave leave) override;
    int map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) override;
    int map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) override;
    void released() override;
};

}  // namespace barcuda
