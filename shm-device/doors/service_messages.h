// SPDX-License-Identifier: Apache-2.0
// service_messages.h: what a guest process and `barcuda guest serve` say to each other, where there is no module of
// ours: the region is memory of virtio-pmem, each of its parts is a file, and the service hands out descriptors of
// those that a client may map. One message asks, one answers; doors/socket_door.cc asks,
// guest-allocator/pmem/service.cc answers.
#pragma once
#include <cstdint>

namespace barcuda::door {

constexpr char usual_path[] = "/run/barcuda/guest.sock";  // of type SOCK_SEQPACKET

enum class What : std::uint32_t {
    header,    // a descriptor of all that guest processes may read, to be read alone
    channel,   // a fresh channel, one for each connection: its descriptor, and its number
    extent,    // a descriptor for each granule of [offset, offset + bytes), at most `most_files`
    released,  // something was unmapped: look. Nothing is answered
};
struct Request {
    What what;
    std::uint32_t reserved = 0;
    std::uint64_t offset = 0, bytes = 0;
};
struct Answer {
    std::int32_t error = 0;  // errno; then there are no descriptors
    std::uint32_t channel = 0;
};
// A program need not have more descriptors left than that for the moment.
constexpr unsigned most_files = 8;

}  // namespace barcuda::door
