// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/wake.h"

#include <cstring>
#include <vector>

#include "host-bridge/worker/array_bytes.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/client_copies.h"
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/memory_bytes.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using carrying::Which;

// Twice of what a client may have that can be carried.
constexpr std::uint64_t most_bytes = 2 * (Births::most_bytes + (std::uint64_t{64} << 20));

class Wake {
  public:
    Wake(Session& session, CodeStore& code, const BridgeLink::Parts& parts, CarryPlace& place)
        : session_(session), code_(code), parts_(parts), place_(place) {}

    Failure all(Carried& carried) {
        if (Failure failure = births(carried)) return failure;
        for (const auto& [offset, bytes] : carried.extents)
            if (Failure failure = session_.extents().map(offset, bytes)) return failure;
        if (Failure failure = replay(session_, carried)) return failure;
        return memory();
    }

  private:
    Failure take(Which which, std::span<std::byte> bytes, std::uint64_t& count) {
        Failure failure = read_all(parts_[static_cast<std::size_t>(which)], bytes, carrying::name_of(which));
        publish(count, count + bytes.size());
        return failure;
    }
    Failure births(Carried& carried) {
        std::vector<std::byte> bytes(sizeof(CarriedHead));
        if (Failure failure = take(Which::births, bytes, place_.births)) return failure;
        CarriedHead head;
        std::memcpy(&head, bytes.data(), sizeof head);
        if (head.magic != CarriedHead::right_magic || head.bytes > most_bytes)
            return "it is no client that was carried";
        bytes.resize(sizeof head + head.bytes);
        if (Failure failure = take(Which::births, std::span(bytes).subspan(sizeof head), place_.births)) return failure;
        Failure damage;
        const auto next_image = [&](std::uint64_t hash, std::uint64_t size) -> CodeStore::Ref {
            if (size > CodeStore::most_bytes) return {};
            std::vector<std::byte> image(size);
            if ((damage = take(Which::code, image, place_.code))) return {};
            CodeStore::Ref kept = code_.keep(image);
            return kept && kept->hash == hash ? kept : CodeStore::Ref();
        };
        Failure failure = read(bytes, next_image, carried);
        return damage ? damage : failure;
    }
    Failure memory() {
        const CopyRoom room(session_.driver());
        if (room.all().empty()) return "there is no memory for the copies";
        wait_for_memory();
        ClientCopies copies(session_);
        const auto read_memory = [&](std::span<std::byte> bytes) { return take(Which::memory, bytes, place_.memory); };
        if (Failure failure = load_memory(session_.births().memory(), copies, room.all(), read_memory)) return failure;
        return load_arrays(session_, room.all(), read_memory);
    }

    Session& session_;
    CodeStore& code_;
    const BridgeLink::Parts& parts_;
    CarryPlace& place_;
};

}  // namespace

Failure wake(Session& session, CodeStore& code, const BridgeLink::Parts& parts, CarryPlace& place, Carried& carried) {
    return Wake(session, code, parts, place).all(carried);
}

}  // namespace barcuda
