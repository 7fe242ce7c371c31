// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/cards_desk.h"

#include <cuda.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/os/thread.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

using residency::ms;
using residency::second;
using residency::Time;

constexpr std::uint32_t link_with_cards = 3;  // of the first workers that have places (link.h)

std::string text(std::uint64_t bytes) { return about(Limit::device_memory).text(bytes); }

std::vector<Residents::Card> cards_of(const Host& host) {
    std::vector<Residents::Card> all;
    for (const barcuda_device& device : host.devices.all) {
        auto& card = all.emplace_back();
        std::memcpy(card.uuid.data(), device.uuid, card.uuid.size());
        card.size = device.total_memory;
    }
    return all;
}

}  // namespace

// ---- the thread

Failure BookListener::start(cards::Member& book) {
    book_ = &book;
    called_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!called_) return fmt::format("the book of cards has no eventfd: {}", strerror(errno));
    const os::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    return {};
}

// The thread never calls malloc, because the bridge may fork at any moment. A process that writes into the book without
// end wakes the loop at most once in least_pause.
void BookListener::run() {
    constexpr std::uint64_t a_while = 10 * second, least_pause = 200'000;
    for (std::uint32_t seen = book_->calls(); !over_;) {
        book_->sleep(seen, a_while);
        const std::uint32_t calls = book_->calls();
        if (std::exchange(seen, calls) == calls) continue;
        const std::uint64_t once = 1;
        if (write(called_.fd(), &once, sizeof once) < 0 && errno != EAGAIN) return;
        Os::nap(least_pause);
    }
}

BookListener::~BookListener() {
    if (!thread_.joinable()) return;
    over_ = true;
    book_->call_own();
    thread_.join();
}

void BookListener::take() const {
    std::uint64_t times = 0;
    if (read(called_.fd(), &times, sizeof times) < 0) return;  // it was taken already
}

// ---- the desk

CardsDesk::CardsDesk(cards::Member& book, Rooms& rooms, const Terms& terms, Monitor monitor, const Clients& clients,
                     const LimitsDesk& limits, const Host& host, Part<KeptResidents> kept, Returns returns)
    : monitor_(std::move(monitor)),
      book_(book),
      rooms_(rooms),
      policy_(terms.rules),
      reserve_(terms.reserve),
      kept_(kept),
      returns_(std::move(returns)),
      clients_(clients),
      limits_(limits),
      host_(host) {}

void CardsDesk::begin() {
    if (book_.fd() < 0) return;
    residents_.emplace(book_, policy_, cards_of(host_), reserve_,
                       Residents::Facts{[this](int card) { return in_use(card); },
                                        [this](std::uint32_t slot) { return rooms_.held(slot); }, returns_},
                       kept_);
}

Failure CardsDesk::listen(Loop& loop) {
    if (!residents_) return {};
    if (Failure e = listener_.start(book_)) return e;
    if (Failure e = rooms_.start()) return e;
    on_call_ = loop.watch(listener_.fd(), Loop::Rank::tool, [this](short) { listener_.take(); });
    if (rooms_.fd() >= 0)
        on_room_ = loop.watch(rooms_.fd(), Loop::Rank::tool, [this](short) {
            std::uint64_t times = 0;
            if (read(rooms_.fd(), &times, sizeof times) < 0) return;
            clients_.each([this](Client& client) { answer_room(client); });
        });
    return {};
}

cards::Claim::Terms CardsDesk::terms_of(const Client& client) const {
    const bool pinned = limits_.of(client, Limit::memory_pinned) != 0 || limits_.of_guest(Limit::memory_pinned) != 0;
    return {static_cast<std::uint32_t>(limits_.share().priority), pinned};
}

void CardsDesk::admit(Client& client) {
    if (!residents_) return;
    residents_->admit(client.slot(), client.worker->sheet(), client.worker->devices(), terms_of(client));
    ask_for_use(Os::now());
}

void CardsDesk::restore(Client& client) {
    if (!residents_ || observe(client.worker->sheet().orders.link) < link_with_cards) return;
    residents_->restore(client.slot(), client.worker->sheet(), client.worker->devices(), terms_of(client));
}

void CardsDesk::all_are_back() {
    if (residents_) residents_->all_are_back();
}

void CardsDesk::forget(std::uint32_t slot) {
    if (!residents_) return;
    residents_->forget(slot);
    rooms_.forget(slot);
}

void CardsDesk::change() {
    if (!residents_) return;
    clients_.each([this](const Client& client) { residents_->change(client.slot(), terms_of(client)); });
}

std::optional<Residents::Facts::Use> CardsDesk::in_use(int card) const {
    const auto now = std::chrono::system_clock::now();
    const Busy* const seen = monitor_.busy(now);
    if (!seen || seen->free[card] == Busy::not_known) return {};
    const auto taken = std::chrono::system_clock::time_point{} + std::chrono::microseconds(observe(seen->taken));
    const auto ago = std::max(std::chrono::nanoseconds{}, std::chrono::nanoseconds(now - taken));
    const std::uint64_t size = host_.devices.all[static_cast<std::size_t>(card)].total_memory;
    return Residents::Facts::Use{size - std::min(size, seen->free[card]), Os::now() - static_cast<Time>(ago.count())};
}

// NVML's sweeps cost the card's programs time: there are none while no client wants memory.
void CardsDesk::ask_for_use(Time now) {
    constexpr Time asks_every = 300 * ms;
    if (now < asked_for_use_ + asks_every) return;
    asked_for_use_ = now;
    monitor_.want();
}

void CardsDesk::look() {
    if (!residents_) return;
    constexpr Time presses_for = 5 * second;
    const Time now = Os::now();
    if (store_pressed_ != 0 && now > store_pressed_ + presses_for) {
        store_pressed_ = 0;
        residents_->press_store(false);
    }
    if (residents_->is_due(now)) follow(now);
}

void CardsDesk::follow(Time now) {
    for (const Residents::News& news : residents_->look(now)) {
        const Client* const client = clients_[news.slot];
        if (!client) continue;
        switch (news.what) {
            case Residents::News::wake: client->bell.relay(); break;
            case Residents::News::waits:
                log::debug("cards: channel {} waits for {}", news.slot, text(news.bytes));
                break;
            case Residents::News::lacks_row:
                log::warn(
                    "cards: channel {}: it gets no device memory until another program of this guest has ended: the "
                    "book of cards keeps its other rows for other bridges (user {}, program {})",
                    news.slot, client->record.user, client->record.program);
                break;
            case Residents::News::refused:
                log::warn(
                    "cards: channel {}: {} of device memory refused after {:.1f} s: the card has no room, and no other "
                    "client gave enough (user {}, program {})",
                    news.slot, text(news.bytes), static_cast<double>(news.waited) / second, client->record.user,
                    client->record.program);
        }
    }
    if (residents_->any_waits()) ask_for_use(now);
    if (const bool locked = book_.is_locked_out(); std::exchange(told_locked_, locked) != locked) {
        if (locked) log::warn("the file of cards: another process holds its lock, and clients of all bridges wait");
        else log::info("the file of cards: its lock is free again");
    }
    monitor_.show();
}

std::chrono::milliseconds CardsDesk::patience(std::chrono::milliseconds at_most) const {
    if (!residents_ || !residents_->any()) return at_most;
    const Time now = Os::now(), due = residents_->look_at();
    const auto until = std::chrono::milliseconds(due <= now ? 0 : (due - now + ms - 1) / ms);
    return std::min(at_most, until);
}

cards::Claim::Answer CardsDesk::claim(std::uint32_t slot, int card, std::uint64_t bytes) {
    if (!residents_) return cards::Claim::Answer::granted;
    const Time now = Os::now();
    const auto answer = residents_->claim(slot, card, bytes, now);
    if (answer == cards::Claim::Answer::waits) ask_for_use(now);
    return answer;
}

CUresult CardsDesk::look_now() {
    if (!residents_) return CUDA_ERROR_NOT_SUPPORTED;
    follow(Os::now());
    return CUDA_SUCCESS;
}

void CardsDesk::ask_room(Client& client, std::uint64_t bytes) {
    const std::uint32_t slot = client.slot();
    const auto refuse = [&](CUresult why) { client.answer(Answer<request::StoreRoom>{.error = why}); };
    if (!residents_) return refuse(CUDA_ERROR_NOT_SUPPORTED);
    if (bytes == 0 || bytes % Rooms::granule != 0) return refuse(CUDA_ERROR_INVALID_VALUE);
    const Rooms::Limits limits{limits_.of(client, Limit::store_memory), limits_.of_guest(Limit::store_memory)};
    const Rooms::Asked asked = rooms_.ask(slot, bytes, limits);
    switch (asked) {
        case Rooms::Asked::begun: client.told_store_is_full = false; return answer_room(client);
        case Rooms::Asked::busy: break;  // its worker asks again
        case Rooms::Asked::full:
        case Rooms::Asked::has_most_files:
            tell_no_room(client, asked == Rooms::Asked::has_most_files, limits);
            press_store();
    }
    refuse(CUDA_ERROR_OUT_OF_MEMORY);
}

// A worker that was taken over may ask and give back without end: a line a minute is enough.
void CardsDesk::tell_no_room(Client& client, bool has_most_files, const Rooms::Limits& limits) const {
    constexpr Time tells_every = 60 * second;
    const Time now = Os::now();
    if (client.told_store_is_full || (client.told_store_at != 0 && now < client.told_store_at + tells_every)) return;
    client.told_store_is_full = true;
    client.told_store_at = now;
    const std::uint32_t slot = client.slot();
    if (has_most_files)
        log::warn(
            "cards: channel {}: it has {} files in the store, {} together, and no client has more: the rest of "
            "its memory stays on the card",
            slot, Rooms::most_of_a_client, text(rooms_.held(slot)));
    else
        log::warn(
            "cards: channel {}: the store has no room for its memory ({} of {} in use; limits {}, {}): it stays on "
            "the card",
            slot, text(rooms_.held()), text(rooms_.store()), text(limits.client), text(limits.guest));
}

// The others give back what they do not use; the client asks again.
void CardsDesk::press_store() {
    store_pressed_ = Os::now();
    residents_->press_store(true);
    clients_.each([](const Client& other) {
        if (other.is_served()) other.bell.relay();
    });
}

// If it is made.
void CardsDesk::answer_room(Client& client) {
    if (!client.is_served()) return;
    const auto room = rooms_.take(client.slot());
    if (!room) return;
    Answer<request::StoreRoom> answer{.reply = {room->number, room->bytes}};
    if (room->file < 0) {
        answer = {.error = CUDA_ERROR_OUT_OF_MEMORY};
        log::warn("cards: the host lacks {} of memory that --store promises: give a smaller store", text(room->bytes));
    }
    client.answer(answer, room->file);
}

CUresult CardsDesk::take_back(const Client& client, std::uint64_t number) {
    if (!residents_) return CUDA_ERROR_NOT_SUPPORTED;
    const bool is_one =
        number <= Rooms::most_of_a_client && rooms_.give_back(client.slot(), static_cast<std::uint32_t>(number));
    return is_one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void CardsDesk::drop_room(const Client& client, std::uint64_t number) {
    if (residents_ && number <= Rooms::most_of_a_client) rooms_.drop(client.slot(), static_cast<std::uint32_t>(number));
}

void CardsDesk::repeat_room(Client& client, const KeptRequest& answered) {
    Answer<request::StoreRoom> answer;
    if (answered.bytes != sizeof answer) return;
    std::memcpy(static_cast<void*>(&answer), answered.message, sizeof answer);
    if (answer.error != CUDA_SUCCESS) return client.repeat(answered);
    if (residents_ && rooms_.ask_again(client.slot(), static_cast<std::uint32_t>(answer.reply.number)))
        answer_room(client);
}

}  // namespace barcuda
