// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/wake.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"

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
    Wake(Session& session, CodeStore& code, BridgeLink::Parts& parts, CarryPlace& place)
        : session_(session), code_(code), parts_(parts), place_(place) {}

    Failure all(Carried& carried) {
        using Clock = std::chrono::steady_clock;
        auto begun = Clock::now();
        const auto lap = [&begun] {
            const std::chrono::duration<double> took = Clock::now() - std::exchange(begun, Clock::now());
            return took.count();
        };
        if (Failure failure = births(carried)) return failure;
        const double read = lap();
        for (const auto& [offset, bytes] : carried.extents)
            if (Failure failure = session_.extents().map(offset, bytes)) return failure;
        const double mapped = lap();
        if (Failure failure = replay(session_, carried)) return failure;
        const double made = lap();
        if (Failure failure = memory()) return failure;
        const double written = lap();
        log::info(
            "back in {:.2f} s: births and code read {:.2f}, extents mapped {:.2f}, {} births made {:.2f}, "
            "{} MiB of memory written {:.2f}",
            read + mapped + made + written, read, mapped, carried.births.size(), made, place_.memory >> 20, written);
        return {};
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
        const auto part = [&](Which which) -> File& { return parts_[static_cast<std::size_t>(which)]; };
        Conveyor conveyor;
        if (Failure failure = conveyor.open(std::exchange(part(Which::memory), {}), part(Which::room))) return failure;
        part(Which::room) = File();
        const CopyRoom room(session_.driver(), conveyor.room());
        if (Failure failure = wait_for_memory(session_.driver())) return failure;
        ClientCopies copies(session_);
        InFrames from(conveyor, {[&] { return copies.end_batch(); }, [&] { return copies.finish(); }});
        const std::vector<Contents> memory = contents_of_memory(session_);
        Failure failure = compare_list(memory, from);
        if (!failure) failure = compare_list(contents_of_arrays(session_), from);
        if (!failure) failure = load_memory(memory, copies, from);
        if (!failure) failure = load_arrays(session_, from);
        if (!failure) failure = from.finish();
        publish(place_.memory, from.bytes());
        return failure;
    }

    Session& session_;
    CodeStore& code_;
    BridgeLink::Parts& parts_;
    CarryPlace& place_;
};

}  // namespace

Failure wake(Session& session, CodeStore& code, BridgeLink::Parts& parts, CarryPlace& place, Carried& carried) {
    return Wake(session, code, parts, place).all(carried);
}

}  // namespace barcuda
