// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/heap_desk.h"

#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "host-bridge/between/link.h"

namespace barcuda {
namespace {

// Time in a turn of the loop for emptying requested memory: all other clients wait.
constexpr std::chrono::milliseconds cleaning_time{2}, idle_cleaning_time{1};

bool is_file(int fd) {
    struct stat st {};
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

}  // namespace

HeapDesk::HeapDesk(const HostRegion& region, Grants& grants, const Clients& clients, const LimitsDesk& limits,
                   Pool& pool)
    : region_(region),
      grants_(grants),
      clients_(clients),
      limits_(limits),
      pool_(pool),
      has_pages_(is_file(region.fd())) {}

// Clients whose memory must be emptied first, or is still held by ending workers: in turn, so that none waits for all
// that another one requests.
void HeapDesk::begin_turn(Clock::time_point now) {
    short_of_time_ = false;
    time_ends_ = now + cleaning_time;
    const auto count = static_cast<std::uint32_t>(clients_.size());
    for (std::uint32_t i = 0, from = next_; i < count && !short_of_time_; ++i) {
        Client* const client = clients_[(from + i) % count];
        if (!client || !client->asked) continue;
        next_ = (from + i + 1) % count;
        answer(*client);
    }
}

void HeapDesk::release_pages() {
    const auto end = Clock::now() + idle_cleaning_time;
    while (has_pages_ && grants_.clean_one() && Clock::now() < end) {}
}

void HeapDesk::ask(Client& client, std::uint64_t bytes) {
    if (client.asked)  // a worker has one request at a time
        return client.answer(Answer<request::Grant>{.error = CUDA_ERROR_INVALID_VALUE});
    client.asked.emplace(bytes);
    answer(client);
}

void HeapDesk::answer(Client& client) {
    const std::uint32_t channel = client.slot();
    const std::uint64_t bytes = client.asked->bytes();
    const Grants::Run run = grant(channel, bytes);
    if (run.bytes == 0) {
        const Asked::Facts facts{grants_.fits_without_reserves(channel, bytes, limits_.room(channel)), short_of_time_,
                                 pool_.reserves(), pool_.leaving_reserves()};
        switch (client.asked->next(facts, Clock::now())) {
            case Asked::Step::wait: return;
            case Asked::Step::end_reserves: return pool_.drop_reserves();
            case Asked::Step::refuse: break;
        }
    }
    client.asked.reset();
    client.answer(Answer<request::Grant>{.error = run.bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
                                         .reply = {run.offset, run.bytes}});
    if (run.bytes) grants_.confirm(run);
}

// Pages of a region are allocated on first touch; if the file system is full, the process that touches them gets
// SIGBUS. So a request without room is refused, as if the region were full. (Another process may take the room first;
// but a GPU's driver, which pins extents, takes it at once.)
Grants::Run HeapDesk::grant(std::uint32_t channel, std::uint64_t bytes) {
    const Grants::Run run = grants_.grant(channel, bytes, limits_.room(channel), [this] { return has_time(); });
    if (run.bytes == 0 || has_room(run.bytes)) return run;
    grants_.release(channel, run);
    return {};
}

Grants::Run HeapDesk::reserve(std::uint64_t bytes) {
    constexpr std::uint64_t plenty = 8;
    if (!limits_.may_reserve(Preparation::most * bytes) || grants_.free() / plenty < bytes) return {};
    const Grants::Run run = grants_.reserve(bytes, [this] { return has_time(); });
    if (run.bytes == 0 || has_room(plenty * run.bytes)) return run;
    grants_.release(run);
    return {};
}

bool HeapDesk::hand_over(Client& client) {
    bool all = true;
    for (const Grants::Run& run : std::exchange(client.worker->reserved, {})) {
        all &= grants_.hand_over(run, client.slot());
        if (client.worker->mapper().is_expected()) grants_.let_map(client.slot(), run);
    }
    return all;
}

// The first client that asks in a turn of the loop gets as long as it needs.
bool HeapDesk::has_time() {
    if (!short_of_time_) short_of_time_ = Clock::now() > time_ends_;
    return !short_of_time_;
}

bool HeapDesk::has_room(std::uint64_t bytes) const {
    struct statvfs there;  // no blocks at all: a file system without a limit
    return !has_pages_ || fstatvfs(region_.fd(), &there) != 0 || there.f_blocks == 0 ||
           bytes <= std::uint64_t{there.f_bavail} * there.f_frsize;
}

void clear(const HostRegion& region, std::uint64_t offset, std::uint64_t bytes) {
    if (fallocate(region.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) == 0)
        return;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd(), static_cast<off_t>(offset));
    if (at == MAP_FAILED) {
        log::critical("cannot clear {} MiB of the region: {}", bytes >> 20, strerror(errno));
        std::abort();  // continuing would give one client's data to another
    }
    std::memset(at, 0, bytes);
    munmap(at, bytes);
}

}  // namespace barcuda
