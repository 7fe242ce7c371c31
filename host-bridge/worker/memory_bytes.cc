// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory_bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/content_hash.h"

namespace barcuda {
namespace {

Failure said(CUresult result, const char* what, std::uint64_t address) {
    if (result == CUDA_SUCCESS) return {};
    return fmt::format("the driver does not copy {} memory at {:#x} (error {})", what, address,
                       static_cast<int>(result));
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

Failure save_piece(std::uint64_t name, std::span<const std::byte> piece, const WriteBytes& write) {
    const bool zeros = all_zeros(piece);
    const PieceHead head{name, piece.size(), zeros ? 0 : content_hash(piece), zeros ? 0 : piece.size()};
    if (Failure f = write(std::as_bytes(std::span(&head, 1)))) return f;
    return zeros ? Failure() : write(piece);
}

Failure load_piece(std::uint64_t name, std::span<std::byte> piece, const ReadBytes& read) {
    PieceHead head;
    if (Failure f = read(std::as_writable_bytes(std::span(&head, 1)))) return f;
    if (head.address != name || head.bytes != piece.size() || (head.follow != 0 && head.follow != piece.size()))
        return fmt::format("there are {} bytes of memory at {:#x} in place of {} at {:#x}", head.bytes, head.address,
                           piece.size(), name);
    if (head.follow == 0) {
        std::ranges::fill(piece, std::byte{});
        return {};
    }
    if (Failure f = read(piece)) return f;
    return content_hash(piece) == head.hash ? Failure()
                                            : Failure(fmt::format("the bytes of memory at {:#x} are damaged", name));
}

Failure save_end(const WriteBytes& write) {
    const PieceHead end;
    return write(std::as_bytes(std::span(&end, 1)));
}

Failure load_end(const ReadBytes& read) {
    PieceHead head;
    if (Failure f = read(std::as_writable_bytes(std::span(&head, 1)))) return f;
    return head.bytes == 0 ? Failure() : Failure("there is more memory than the client has");
}

Failure save_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const WriteBytes& write) {
    Failure failure = each_piece(memory, room.size(), [&](std::uint64_t address, std::uint64_t bytes) -> Failure {
        CUresult r = copies.to_host(room.data(), address, bytes);
        if (const CUresult finished = copies.finish(); r == CUDA_SUCCESS) r = finished;
        if (Failure f = said(r, "from", address)) return f;
        return save_piece(address, room.first(bytes), write);
    });
    return failure ? std::move(failure) : save_end(write);
}

Failure load_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const ReadBytes& read) {
    Failure failure = each_piece(memory, room.size(), [&](std::uint64_t address, std::uint64_t bytes) -> Failure {
        const auto piece = room.first(bytes);
        if (Failure f = load_piece(address, piece, read)) return f;
        CUresult r = copies.to_device(address, piece.data(), bytes);
        if (const CUresult finished = copies.finish(); r == CUDA_SUCCESS) r = finished;
        return said(r, "to", address);
    });
    return failure ? std::move(failure) : load_end(read);
}

}  // namespace barcuda
