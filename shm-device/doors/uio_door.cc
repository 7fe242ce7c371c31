// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/uio_door.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/os/clock.h"
#include "base/os/futex.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// The guest module's maps (docs/region.md): mmap's offset chooses one, in pages.
constexpr std::uint64_t header_map = 0, channel_map = BARCUDA_PAGE, extents_map = 2 * BARCUDA_PAGE;
constexpr std::uint64_t closed_nap = 1'000'000;  // ns: of a thread whose program has closed the device

}  // namespace

UioDoor::UioDoor(const char* path, os::KeptFile&& file) : Door(path, std::move(file)) {
    properties_.own_kernel = true;
    properties_.forks_by_itself = true;
}

Error UioDoor::map_header(const char** header) {
    void* p = nullptr;
    const int code = os::map_file(fd(), header_map, BARCUDA_CHANNELS_OFFSET, os::Access::read, &p);
    if (code == ENXIO)
        return error(Error::not_ready, 0,
                     "%s: the module finds no region in the device's memory ('dmesg' says what it found); start "
                     "barcuda-bridge on the host",
                     path());
    if (code != 0) return error(Error::system, code, "%s: cannot map the header", path());
    keep_header(p, BARCUDA_CHANNELS_OFFSET);
    *header = static_cast<const char*>(p);
    return {};
}

// The module picks the slot, and marks it closed when the last mapping goes.
Error UioDoor::open_channel(const Tables& tables, Channel& channel) {
    void* p = nullptr;
    const int code = os::map_file(fd(), channel_map, BARCUDA_CHANNEL_SIZE, os::Access::write, &p);
    if (code == ENOSPC || code == EAGAIN) return all_in_use(tables, code == EAGAIN);
    if (code != 0) return error(Error::system, code, "%s: cannot open a channel", path());
    return take_channel(p, tables, channel);
}

void UioDoor::close_channel(const Tables&, Channel& channel, Leave leave) {
    // A child has no mapping of it.
    if (leave == Leave::to_nobody && channel) os::unmap(channel.memory, BARCUDA_CHANNEL_SIZE);
    channel = {};
}

int UioDoor::map_extent(std::uint64_t, std::uint64_t bytes, void* own, os::Over over) {
    return os::map_file_at(fd(), extents_map, own, bytes, over);
}

// The module maps an extent at its own address alone, but lets it be moved: so it is moved, and mapped again. Before
// that, too, since what was mapped bit by bit cannot be moved as one.
int UioDoor::map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) {
    void* room = nullptr;
    if (const int code = os::map_memory(bytes, os::Access::none, &room)) return code;
    int code = map_extent(offset, bytes, own, os::Over::any_mapping);
    if (code == 0) code = os::move_mapping(own, bytes, room);
    // The next user of this memory would fault on what is not mapped here now.
    if (map_extent(offset, bytes, own, os::Over::any_mapping) != 0) std::abort();
    if (code == 0) *address = room;
    else os::unmap(room, bytes);
    return code;
}

// The doorbell of ivshmem, as UIO hands it out: what is written rings, what is read counts interrupts.
bool UioDoor::rings() const {
    const std::int32_t vector = 0;
    return !check_file() && ::write(fd(), &vector, sizeof vector) == sizeof vector;
}

void UioDoor::choose_bell(std::uint32_t& bell) {
    const bool has_doorbell = rings();  // and so the bridge looks
    heard_ = has_doorbell ? reinterpret_cast<const std::uint32_t*>(&count_) : nullptr;
    publish(bell, has_doorbell ? BARCUDA_BELL_DOORBELL : BARCUDA_BELL_NONE);  // WORD
}

void UioDoor::ring(const std::uint32_t* word) const {
    if (!word || heard_) rings();
}

// Waits for the next interrupt since the last one that was awaited. False: the program has closed the device.
bool UioDoor::hear(std::uint64_t nanoseconds) const {
    if (check_file()) return false;
    const timespec t{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
    pollfd p{fd(), POLLIN, 0};
    if (::ppoll(&p, 1, &t, nullptr) != 1) return true;
    std::uint32_t count;
    return ::read(fd(), &count, sizeof count) == sizeof count;
}

// An interrupt is counted until it is read, so none is missed between a thread's look and its sleep. One thread reads;
// when it goes it wakes the others, and one of them takes its place.
void UioDoor::await(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds) {
    if (!heard_) return Door::await(word, seen, nanoseconds);
    if (listening_.test_and_set(std::memory_order_acquire)) {
        futex_wait(*heard_, seen, nanoseconds, Among::threads);
        return;
    }
    const bool is_open = hear(nanoseconds);
    listening_.clear(std::memory_order_release);
    count_.fetch_add(1, std::memory_order_release);
    futex_wake(*heard_, Among::threads);
    if (!is_open) os::nap(closed_nap);
}

}  // namespace barcuda
