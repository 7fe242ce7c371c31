// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/bridge_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace barcuda {

static_assert(sizeof(carrying::Hand) == sizeof(Answer<request::Look>) &&
              offsetof(carrying::Hand, number) == offsetof(Answer<request::Look>, number));

// ---- requests

CUresult BridgeLink::grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& granted) {
    const auto answer = ask(request::Grant{bytes});
    offset = answer.reply.offset;
    granted = answer.reply.bytes;
    return static_cast<CUresult>(answer.error);
}
bool BridgeLink::borrow(int device, std::uint64_t bytes, std::uint64_t& left) {
    const auto answer = ask(request::Borrow{static_cast<std::uint64_t>(device), bytes});
    left = answer.reply.left;
    return answer.error == CUDA_SUCCESS;
}
CUresult BridgeLink::share(Shared::Kind kind, Shared::Handle& handle, const File& file) {
    const auto answer = ask(request::Share{kind, handle}, file.fd());
    handle = answer.reply.token;
    return static_cast<CUresult>(answer.error);
}
CUresult BridgeLink::find_shared(Shared::Kind kind, Shared::Handle& handle, File& file) {
    const auto answer = ask(request::Find{kind, handle}, -1, &file);
    handle = answer.reply.handle;
    return static_cast<CUresult>(answer.error);
}
CUresult BridgeLink::store_room(std::uint64_t& number, std::uint64_t& bytes, File& file) {
    const auto answer = ask(request::StoreRoom{bytes}, -1, &file);
    number = answer.reply.number;
    bytes = answer.reply.bytes;
    return static_cast<CUresult>(answer.error);
}

void BridgeLink::release(std::uint64_t offset, std::uint64_t bytes) { ask(request::Release{offset, bytes}); }

void BridgeLink::repay(int device, std::uint64_t bytes) {
    ask(request::Repay{static_cast<std::uint64_t>(device), bytes});
}

void BridgeLink::withdraw(const Shared::Handle& token) { ask(request::Withdraw{token}); }

bool BridgeLink::look() { return ask(request::Look{}).error != CUDA_ERROR_NOT_SUPPORTED; }

void BridgeLink::give_store_back(std::uint64_t number) { ask(request::StoreBack{number}); }

// NOT_READY: the bridge answers nothing at the moment.
template <class Request> Answer<Request> BridgeLink::ask(const Request& request, int with, File* got) {
    const std::lock_guard lock(mutex_);
    if (closed() || (left_.number != 0 && hear({}) != Heard::answer)) return {.error = CUDA_ERROR_NOT_READY};
    if (const auto late = std::exchange(late_, {}); late.bytes != 0) {
        if constexpr (std::is_same_v<Request, request::Grant>)
            if (late.bytes >= request.bytes) return {.reply = late};
        exchange(request::Release{late.offset, late.bytes}, -1, nullptr);
        if (closed()) return {.error = CUDA_ERROR_NOT_READY};
    }
    // The layer has gone on without it, and would ask for another one: the bridge counts it until it is given back.
    if (const std::uint64_t number = std::exchange(late_room_, 0); number != 0) {
        exchange(request::StoreBack{number}, -1, nullptr);
        if (closed()) return {.error = CUDA_ERROR_NOT_READY};
    }
    return exchange(request, with, got);
}

template <class Request> Answer<Request> BridgeLink::exchange(const Request& request, int with, File* got) {
    static_assert(sizeof(Answer<Request>) <= longest);
    const Message<Request> message{.number = ++count_, .request = request};
    const Asked asked{message.number, message.form};
    Answer<Request> answer{.error = CUDA_ERROR_DEVICE_UNAVAILABLE};
    if (!send_message(link_, &message, sizeof message, with)) return answer;
    const Heard heard = hear(asked);
    if (heard == Heard::hand) {
        left_ = asked;
        answer.error = CUDA_ERROR_NOT_READY;
    } else if (heard == Heard::answer && !read(answer)) {
        answer = {.error = CUDA_ERROR_DEVICE_UNAVAILABLE};
    }
    if (got) *got = std::move(file_);
    file_ = File();
    return answer;
}

template <class Request> bool BridgeLink::read(Answer<Request>& answer) const {
    if (length_ != sizeof answer) return false;
    std::memcpy(static_cast<void*>(&answer), message_.data(), sizeof answer);
    return answer.form == form_of<Request>();
}

// What a message begins with, whether it is an answer or a Hand.
Answer<request::Look> BridgeLink::head() const {
    Answer<request::Look> head;
    std::memcpy(static_cast<void*>(&head), message_.data(), std::min(length_, sizeof head));
    return head;
}

// The next message: an answer to `asked`, or to the request that was left, or a Hand. What an earlier bridge has said
// already is left out.
BridgeLink::Heard BridgeLink::hear(const Asked& asked, int flags) {
    for (;;) {
        const ssize_t bytes = receive_message(link_, message_.data(), message_.size(), file_, flags);
        if (bytes < static_cast<ssize_t>(offsetof(Answer<request::Look>, error))) return Heard::end;
        length_ = static_cast<std::size_t>(bytes);
        const Answer<request::Look> its = head();
        if (its.form == carrying::Hand::right_form) {
            if (take_hand()) return Heard::hand;
            continue;
        }
        if (left_.number != 0 && its.number == left_.number) {
            settle_left();
            if (asked.number == 0) return Heard::answer;
        } else if (asked.number != 0 && its.number == asked.number) {
            return Heard::answer;
        }
    }
}

// False: it is one for an order `ahead`, or for one that was taken back, and the bridge still answers.
bool BridgeLink::take_hand() {
    carrying::Hand hand;
    if (length_ == sizeof hand) std::memcpy(static_cast<void*>(&hand), message_.data(), sizeof hand);
    File file = std::exchange(file_, File());
    const auto part = static_cast<std::size_t>(hand.part);
    const std::uint64_t order = hand.number != 0 ? hand.number : over_ + 1;
    if (hand.ahead == 0 && order <= over_) return false;
    if (hand.ahead == 0 && order != std::exchange(handed_, order)) parts_ = {};
    Parts& parts = hand.ahead != 0 ? ahead_ : parts_;
    if (part < parts.size()) parts[part] = std::move(file);
    return hand.ahead == 0;
}

void BridgeLink::settle_left() {
    Answer<request::Grant> grant;
    Answer<request::StoreRoom> room;
    const std::uint32_t form = std::exchange(left_, {}).form;
    if (form == grant.form && read(grant) && grant.error == CUDA_SUCCESS) late_ = grant.reply;
    if (form == room.form && read(room) && room.error == CUDA_SUCCESS) late_room_ = room.reply.number;
    file_ = File();
}

// ---- carrying

bool BridgeLink::take(Parts& parts, bool waits) {
    const std::lock_guard lock(mutex_);
    const auto lacks = [&] { return !std::ranges::all_of(parts_, [](const File& f) { return static_cast<bool>(f); }); };
    while (hear({}, MSG_DONTWAIT) != Heard::end) {}
    while (waits && lacks() && hear({}) != Heard::end) {}
    if (!closed()) handed_ = over_ + 1;
    const bool all = !lacks();
    parts = std::exchange(parts_, {});
    return all;
}

bool BridgeLink::take_ahead(Parts& parts) {
    const std::lock_guard lock(mutex_);
    while (hear({}, MSG_DONTWAIT) != Heard::end) {}
    parts = std::exchange(ahead_, {});
    return parts[static_cast<std::size_t>(carrying::Which::memory)] &&
           parts[static_cast<std::size_t>(carrying::Which::room)];
}

}  // namespace barcuda
