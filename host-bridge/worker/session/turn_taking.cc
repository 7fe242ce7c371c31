// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/turn_taking.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
constexpr std::uint64_t turn = millisecond, batch_time = 300'000;
// A GPU takes about this long to switch to another process. The process does not pay for it: it would pay at each of
// its turns, but a VM with a larger weight, which has several turns in a row, only at the first.
constexpr std::uint64_t change_of_process = 100'000;
// A worker that has waited longer works without turns for some time: some other worker does not follow the rules. (With
// a low priority, others may have many turns first.)
constexpr std::uint64_t patience = 1000 * millisecond, patience_below = 10'000 * millisecond,
                        look_again = 20 * millisecond, out_for = 5000 * millisecond;
// A kernel may wait for a word that a later command writes: so the worker waits for it no longer than this, and then
// not again for some time.
constexpr std::uint64_t longest_drain = 50 * millisecond, undrainable_for = 1000 * millisecond;
constexpr unsigned most_in_a_batch = 64;

}  // namespace

TurnTaking::TurnTaking(const Driver& driver, turns::Book& book, std::uint32_t group, Work& work, Sheet& sheet)
    : driver_(driver), work_(work), sheet_(sheet) {
    int count = 0;
    driver.cuDeviceGetCount(&count);
    for (int d = 0; d < count; ++d) {
        CUuuid uuid{};
        driver.cuDeviceGetUuid_v2(&uuid, d);
        turns::Uuid bytes;
        std::memcpy(bytes.data(), uuid.bytes, bytes.size());
        auto place = std::make_unique<turns::Place>(book, group, bytes, static_cast<std::uint32_t>(getpid()));
        gpus_.push_back({*place ? std::move(place) : nullptr});
    }
}

TurnTaking::Own* TurnTaking::of(CUcontext context) {
    if (context == last_) return last_own_;
    CUdevice device = 0;
    const bool known = context && driver_.cuCtxGetDevice(&device) == CUDA_SUCCESS && device >= 0 &&
                       static_cast<std::size_t>(device) < gpus_.size() && gpus_[static_cast<std::size_t>(device)].place;
    last_ = context;
    return last_own_ = known ? &gpus_[static_cast<std::size_t>(device)] : nullptr;
}

void TurnTaking::acquire(Own& own) {
    const std::uint64_t begun = Os::now();
    std::uint64_t now = begun;
    const auto out = [&] { return now < own.out_until || now < observe(sheet_.turns_off_until); };
    if (out()) return;
    bool patient = true;
    while (!(own.held = own.place->ask(now)) && !out() && patient) {
        own.place->sleep(look_again);
        now = Os::now();
        patient = now - begun < (own.place->outranked() ? patience_below : patience);
    }
    if (own.held) {
        own.place->renew((now = Os::now()) + change_of_process);
    } else {
        own.place->withdraw();
        own.out_until = now + out_for;
        if (!patient) add(sheet_.vain_turns, 1);
    }
    own.since = own.batch_begun = now;
    own.posted = 0;
}

void TurnTaking::leave(Own& own) {
    if (own.held) own.place->pass(Os::now(), false);
    own.held = false;
}

void TurnTaking::drain(Own& own) {
    const std::uint64_t begun = Os::now();
    std::uint64_t now = begun;
    if (now < own.undrainable_until) return;
    while (!work_.idle()) {
        now = Os::now();
        if (now - begun > longest_drain) return void(own.undrainable_until = now + undrainable_for);
        Os::pause();
    }
}

void TurnTaking::before_work(CUcontext context) {
    Own* const own = of(context);
    if (!own) return;
    if (!own->place->takes_turns()) return leave(*own);
    if (!own->held) return acquire(*own);
    if (++own->posted < own->batch) return;
    own->posted = 0;
    std::uint64_t now = Os::now();
    if (!own->place->has_turn()) return acquire(*own);  // another worker took the turn for forgotten
    if (!own->place->contended(now)) {
        own->place->renew(now);
        own->since = own->batch_begun = now;
        own->batch = most_in_a_batch;
        return;
    }
    drain(*own);
    now = Os::now();
    const std::uint64_t took = now - own->batch_begun;
    if (took > batch_time) own->batch = std::max(1u, own->batch / 2);
    else if (took < batch_time / 2) own->batch = std::min(most_in_a_batch, own->batch * 2);
    own->batch_begun = now;
    if (!own->place->wanted() || now - own->since < turn) return;
    if (own->place->pass(now, true)) own->since = own->batch_begun = Os::now();
    else acquire(*own);
}

void TurnTaking::rest(bool asked) {
    for (Own& own : gpus_)
        if (own.held && (asked || own.place->wanted()) && work_.idle()) leave(own);
}

}  // namespace barcuda
