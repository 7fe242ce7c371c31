// SPDX-License-Identifier: Apache-2.0
// door.cc: what all doors have in common.
#include "shm-device/doors/door.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/clock.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

constexpr std::uint64_t unwoken_nap = 1'000'000;  // ns: the nap of a thread that no peer can wake

}  // namespace

Door::Door(const char* path, os::KeptFile&& file) : file_(std::move(file)) {
    const std::size_t length = std::min(std::strlen(path), sizeof path_ - 1);
    std::memcpy(path_, path, length);
    path_[length] = '\0';
}

Door::~Door() {
    if (header_) os::unmap(header_, header_bytes_);
}

void Door::keep_header(const void* header, std::size_t bytes) {
    header_ = const_cast<void*>(header);
    header_bytes_ = bytes;
}

Error Door::check_file() const {
    if (file_.is_ours()) return {};
    return error(Error::lost, 0,
                 "%s: this program has closed the region's file descriptor (%d), which it did not open; let it close "
                 "those that it has opened",
                 path_, file_.fd());
}

// A door whose peer knows this process by the descriptor cannot be opened again.
Error Door::have_file() {
    Error e = check_file();
    if (e && properties_.opens_again && file_.open_again(path_)) return {};
    return e;
}

Error Door::take_channel(void* p, const Tables& tables, Channel& channel) const {
    Channel c;
    c.memory = static_cast<char*>(p);
    c.index = c.status().channel;
    if (c.index >= tables.shape.channel_count) {
        os::unmap(p, BARCUDA_CHANNEL_SIZE);
        return error(Error::malformed, 0, "%s: the channel says that it is number %u of %u", path_, c.index,
                     tables.shape.channel_count);
    }
    c.offset = BARCUDA_CHANNELS_OFFSET + c.index * BARCUDA_CHANNEL_SIZE;
    c.opening = observe(tables.slots[c.index].opened);  // WORD
    channel = c;
    return {};
}

Error Door::all_in_use(const Tables& tables, bool soon) const {
    Error e =
        error(Error::no_channel, 0, "%s: all %u channels are in use; end a CUDA process, or make the region larger",
              path_, tables.shape.channel_count);
    e.code = soon ? EAGAIN : ENOSPC;
    return e;
}

// Both sides look by themselves.
void Door::choose_bell(std::uint32_t& bell) { publish(bell, BARCUDA_BELL_NONE); }  // WORD
void Door::ring(const std::uint32_t*) const {}
void Door::await(const std::uint32_t&, std::uint32_t, std::uint64_t nanoseconds) {
    os::nap(std::min(nanoseconds, unwoken_nap));
}
std::uint32_t Door::seen(const std::uint32_t& word) const { return observe(heard_ ? *heard_ : word); }

bool Door::gone(const barcuda_slot*, std::uint32_t) const { return false; }

}  // namespace barcuda
