// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/client.h"

#include <cuda.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/message.h"
#include "base/os/process.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"

namespace barcuda {
namespace {

struct EndRow {
    barcuda_state state;
    std::optional<End> noted;  // none: neither in the record nor in the log
};
constexpr EndRow rows[] = {
    {BARCUDA_STATE_REFUSED, End::refused},
    {BARCUDA_STATE_DEAD, End::died},
    {BARCUDA_STATE_GONE, std::nullopt},
};

}  // namespace

Client::Client(const Channel& its_channel, int doorbell, std::uint64_t its_number, Books books)
    : channel(its_channel), bell(its_channel, doorbell), number(its_number), books_(books) {}

void Client::write_down() {
    if (!books_.client || !record.is_a_client()) return;
    KeptClient kept{};
    kept.state = worker ? KeptClient::assigned : KeptClient::ended;
    kept.opening = channel.opening;
    kept.number = number;
    kept.base = base;
    kept.told = told;
    kept.take(record);
    kept.take(own);
    if (worker) {
        if (worker_start_ == 0) worker_start_ = start_time_of(static_cast<std::uint32_t>(worker->pid()));
        kept.worker_start = worker_start_;
        kept.device_count =
            static_cast<std::uint32_t>(std::min<std::size_t>(worker->devices().size(), std::size(kept.devices)));
        std::copy_n(worker->devices().begin(), kept.device_count, kept.devices);
        for (std::size_t i = 0; i < std::min(worker->reserved.size(), std::size(kept.reserved)); ++i)
            kept.reserved[i] = {worker->reserved[i].offset, worker->reserved[i].bytes};
    }
    books_.client->set(kept);
}

// A worker that opens its driver for this client, and dies of it, would do so again.
bool Client::may_begin_again() const {
    return !has_begun_again && worker && worker->was_warm() && !worker->wrapped() && record.counts.commands == 0 &&
           observe(channel.status().state) == BARCUDA_STATE_NEW && observe(channel.supply().answered) == 0;
}

// A bridge that is killed in between finds a client whose worker has gone.
void Client::begin_again() {
    worker.reset();
    admission = Admission::awaited;
    has_begun_again = true;
    told = bound = false;
    away = vain_turns = worker_start_ = number_asked_ = 0;
    record.worker = 0;
    if (books_.request) books_.request->set({});
    if (books_.client) books_.client->set({});
}

void Client::begin_request(std::uint64_t number_asked, std::span<const char> message, std::uint64_t lent) {
    number_asked_ = number_asked;
    if (!books_.request || number_asked == 0) return;
    KeptRequest kept{KeptRequest::asked, static_cast<std::uint32_t>(message.size()), number_asked, lent, {}};
    std::copy_n(message.begin(), std::min(message.size(), sizeof kept.message), kept.message);
    books_.request->set(kept);
}

void Client::write_down_answer(std::span<const char> answer) {
    if (!books_.request || number_asked_ == 0) return;
    KeptRequest kept{KeptRequest::answered, static_cast<std::uint32_t>(answer.size()), number_asked_, 0, {}};
    std::copy_n(answer.begin(), std::min(answer.size(), sizeof kept.message), kept.message);
    books_.request->set(kept);
}

void Client::restore(const KeptClient& kept) {
    record = kept.record();
    own = kept.limits();
    base = kept.base;
    told = kept.told != 0;
    goes_on = true;
    worker_start_ = kept.worker_start;
    if (!record.end) return;
    // Its threads may not have been told: the first reason counts.
    const Ending ending = *record.end == End::refused ? Ending::refused : Ending::died;
    end_session(channel.status(), rows[static_cast<unsigned>(ending)].state, CUDA_ERROR_DEVICE_UNAVAILABLE,
                record.how.c_str());
    bell.wake();
}

std::uint32_t Client::pid() const { return observe(page().pid); }

void Client::end(Ending ending, const std::string& why) {
    const EndRow& row = rows[static_cast<unsigned>(ending)];
    if (row.noted) {
        log::error("channel {}: {}", slot(), why);
        record.note_end(*row.noted, why);
        write_down();
    }
    end_session(channel.status(), row.state, CUDA_ERROR_DEVICE_UNAVAILABLE, why.c_str());
    bell.wake();
}

void Client::end_worker(const std::string& why) {
    end(Ending::died, why);
    worker->dismiss();
}

bool Client::has_ended() const { return observe(channel.status().state) > BARCUDA_STATE_READY; }

void Client::introduce() {
    record.pid = pid();
    record.program = copied(page().program);
    record.user = copied(page().user);
}

void Client::note(std::uint64_t region_memory) {
    record.most_region_memory = std::max(record.most_region_memory, region_memory);
    if (!worker || !record.worker) return;
    Sheet& sheet = worker->sheet();
    record.counts = read_counts(sheet.counts);
    record.most_device_memory = 0;
    for (std::size_t i = 0; i < worker->devices().size(); ++i)
        record.most_device_memory += observe(sheet.device_memory_most[i]);
}

bool Client::has_watched() {
    const std::uint32_t watching = observe(page().watching);
    return watching != std::exchange(watched_, watching);
}

void Client::send(const void* answer, std::size_t bytes, int file) {
    records::step();
    if (send_message(worker->link(), answer, bytes, file)) return;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return;  // it has ended
    end_worker("the worker asks the bridge and does not read the answers");
}

}  // namespace barcuda
