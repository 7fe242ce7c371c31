// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory_bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/content_hash.h"

namespace barcuda {
namespace {

Failure said(CUresult result, const char* what, std::uint64_t address) {
    if (result == CUDA_SUCCESS) return {};
    return fmt::format("the driver does not copy {} memory at {:#x} (error {})", what, address,
                       static_cast<int>(result));
}

bool all_zeros(std::span<const std::byte> bytes) {
    return bytes.empty() ||
           (bytes[0] == std::byte{} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// f(address, bytes) for each piece, until one fails.
template <class F> Failure each_piece(std::span<const Birth::Made> memory, std::size_t room, const F& f) {
    for (const Birth::Made& its : memory)
        for (std::uint64_t done = 0; done < its.bytes;) {
            const std::uint64_t bytes = std::min<std::uint64_t>(room, its.bytes - done);
            if (Failure failure = f(its.thing.name + done, bytes)) return failure;
            done += bytes;
        }
    return {};
}

}  // namespace

Failure save_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const WriteBytes& write) {
    const auto write_head = [&](const PieceHead& head) { return write(std::as_bytes(std::span(&head, 1))); };
    Failure failure = each_piece(memory, room.size(), [&](std::uint64_t address, std::uint64_t bytes) -> Failure {
        CUresult r = copies.to_host(room.data(), address, bytes);
        if (const CUresult finished = copies.finish(); r == CUDA_SUCCESS) r = finished;
        if (Failure f = said(r, "from", address)) return f;
        const auto piece = room.first(bytes);
        const bool zeros = all_zeros(piece);
        if (Failure f = write_head({address, bytes, zeros ? 0 : content_hash(piece), zeros ? 0 : bytes})) return f;
        return zeros ? Failure() : write(piece);
    });
    return failure ? std::move(failure) : write_head({});
}

Failure load_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const ReadBytes& read) {
    PieceHead head;
    const auto read_head = [&] { return read(std::as_writable_bytes(std::span(&head, 1))); };
    Failure failure = each_piece(memory, room.size(), [&](std::uint64_t address, std::uint64_t bytes) -> Failure {
        if (Failure f = read_head()) return f;
        if (head.address != address || head.bytes != bytes || (head.follow != 0 && head.follow != bytes))
            return fmt::format("there are {} bytes of memory at {:#x} in place of {} at {:#x}", head.bytes,
                               head.address, bytes, address);
        const auto piece = room.first(bytes);
        if (head.follow == 0) std::ranges::fill(piece, std::byte{});
        else if (Failure f = read(piece)) return f;
        else if (content_hash(piece) != head.hash)
            return fmt::format("the bytes of memory at {:#x} are damaged", address);
        CUresult r = copies.to_device(address, piece.data(), bytes);
        if (const CUresult finished = copies.finish(); r == CUDA_SUCCESS) r = finished;
        return said(r, "to", address);
    });
    if (failure) return failure;
    if (Failure f = read_head()) return f;
    return head.bytes == 0 ? Failure() : Failure("there is more memory than the client has");
}

}  // namespace barcuda
