// SPDX-License-Identifier: Apache-2.0
// carried_format.h: a client as bytes, for a disk or for another host: what its objects were born from, and what its
// worker alone knew of it. It belongs to no build and no driver: a row is named by its identity (shm-device/rows/
// identity.h), and code by its contents. docs/decisions/0080-births.md says why it is so.
//
//   head     CarriedHead
//   numbers  how many the client has, then for each the row's identity, its name, and whether the client needs it
//   rows     their number, then the identity of each row that is used below; commands name rows by their place here
//   code     their number, then hash and bytes of each image; commands name images by their place here, from 1 on
//   births, recorded events, state, queue, supply, extents: as the functions in carried_format.cc write them
//
// All values are multiples of 8 bytes, as in a packet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/failure.h"
#include "host-bridge/worker/replay.h"

namespace barcuda {

struct CarriedHead {
    static constexpr std::uint64_t right_magic = 0x6c6576617274'7563;  // "cutravel"
    static constexpr std::uint32_t right_format = 3;
    std::uint64_t magic = right_magic;
    std::uint32_t format = right_format;
    std::uint32_t packets = 0;          // BARCUDA_PACKETS: how values lie in commands
    char build[32] = {};                // its version, for messages
    std::uint64_t bytes = 0, hash = 0;  // of all that follows
};

std::vector<std::byte> written(const Carried& carried);
// Every image of code that is named, each once.
std::vector<CodeStore::Ref> code_of(const Carried& carried);

// `find`: the image with this hash and size; null: there is none.
using FindCode = std::function<CodeStore::Ref(std::uint64_t hash, std::uint64_t bytes)>;
Failure read(std::span<const std::byte> bytes, const FindCode& find, Carried& carried);

}  // namespace barcuda
