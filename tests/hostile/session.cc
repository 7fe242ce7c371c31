// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/session.h"

#include <unistd.h>

#include <chrono>
#include <cstring>

#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda::hostile {
namespace {
constexpr Pace pace{.spin = 20, .yield = 300, .nap_min = 50, .nap_max = 500};
}

std::string Session::open(const std::string& region, const Claims& claims) {
    claims_ = claims;
    if (Error e = region_.open(region.empty() ? nullptr : region.c_str())) return e.text;
    const std::uint64_t hash = match(identities, region_.rows(), numbers_);
    if (Error e = region_.open_channel(channel_)) {
        region_.close();
        return e.text;
    }
    barcuda_client& c = channel_.client();
    c.pid = static_cast<barcuda_u32>(getpid());
    std::strncpy(c.program, "hostile", sizeof c.program - 1);
    c.rows_hash = claims.rows_hash.value_or(hash);
    c.devices[0] = claims.device.value_or(0);
    queue_.emplace(virtqueue::in_channel(channel_.memory));
    queue_->disable_wake();
    bell_.open(region_.door(), channel_);
    if (claims.bell) publish(c.bell, *claims.bell);
    publish(c.device_count, claims.device_count.value_or(1));
    region_.knock();
    return {};
}

void Session::close() {
    for (std::size_t i = 0; i < extent_count_; ++i) region_.unmap_extent(extents_[i].first, extents_[i].second);
    extent_count_ = 0;
    if (channel_) region_.close_channel(channel_);
    channel_ = {};
    region_.close();
    queue_.reset();
    collected_ = used_ = 0;
}

std::string Session::message() const {
    char text[sizeof channel_.status().message + 1] = {};
    std::memcpy(text, channel_.status().message, sizeof text - 1);
    return text;
}

void Session::kick() {
    if (claims_.kicks) bell_.kick();
}

std::span<std::byte> Session::extent(std::uint64_t bytes) {
    if (extent_count_ == extents_.size()) return {};
    barcuda_supply& page = channel_.supply();
    const std::uint64_t request = observe(page.asked) + 1;
    page.bytes = bytes;
    publish(page.asked, request);  // WORD
    bell_.kick_supply();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_);
    for (Waiter<> waiter(pace); observe(page.answered) != request; waiter.turn())
        if (ended() || (waiter.should_ask() && std::chrono::steady_clock::now() > end)) return {};
    const std::uint64_t offset = page.offset, granted = page.granted;
    void* at = nullptr;
    if (page.error != 0 || region_.map_extent(offset, granted, &at)) return {};
    extents_[extent_count_++] = {offset, granted};
    return {static_cast<std::byte*>(at), granted};
}

void Session::post_raw(std::span<const virtqueue::Buffer> chain) {
    queue_->post(chain);
    if (queue_->should_kick(bell_.fenced())) kick();
}

void Session::post(std::size_t request_bytes, std::size_t reply_bytes) {
    request_bytes = padded(request_bytes);
    reply_bytes = padded(reply_bytes);
    if (request_bytes + reply_bytes > room) reply_bytes = room - request_bytes;
    const std::uint64_t offset = channel_.offset + BARCUDA_COMMANDS_OFFSET + posted() % depth * room;
    sent_[posted() % depth] = {static_cast<std::uint32_t>(request_bytes), static_cast<std::uint32_t>(reply_bytes)};
    const virtqueue::Buffer chain[] = {{offset, static_cast<std::uint32_t>(request_bytes), false},
                                       {offset + request_bytes, static_cast<std::uint32_t>(reply_bytes), true}};
    post_raw(std::span(chain, reply_bytes ? 2 : 1));
}

void Session::answer_calls() {
    barcuda_calls& calls = channel_.calls();
    const std::uint64_t asked = observe(calls.asked);
    if (asked == observe(calls.done)) return;
    publish(calls.done, asked);
    kick();
}

Session::Found Session::look() {
    if (used_ > collected_) return Found::reply;
    used_ = queue_->reap();
    if (used_ > collected_) return Found::reply;
    return ended() || queue_->broken() ? Found::ended : Found::nothing;
}

Session::Found Session::await() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_);
    for (Waiter<> waiter(pace);; waiter.turn()) {
        if (const Found found = look(); found != Found::nothing) return found;
        answer_calls();
        if (waiter.should_ask() && std::chrono::steady_clock::now() > end) return Found::stuck;
    }
}

std::span<const std::byte> Session::reply() const {
    const Sent& sent = sent_[collected_ % depth];
    return place(collected_).subspan(sent.request, sent.reply);
}

}  // namespace barcuda::hostile
