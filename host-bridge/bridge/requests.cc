// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/requests.h"

#include <cstring>
#include <utility>

namespace barcuda {
namespace {

bool is_kind(Shared::Kind kind) { return kind <= Shared::Kind::pool; }

bool is_valid(const auto&) { return true; }
bool is_valid(const request::Share& share) { return is_kind(share.kind); }
bool is_valid(const request::Find& find) { return is_kind(find.kind); }

template <class Request> std::optional<BridgeRequest> read_as(std::span<const char> bytes) {
    static_assert(sizeof(Message<Request>) <= longest_request);
    Message<Request> message;
    if (bytes.size() != sizeof message) return {};
    std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
    if (message.bytes != sizeof message || !is_valid(message.request)) return {};
    return message.request;
}

template <std::size_t... number> std::optional<BridgeRequest> read_form(std::uint32_t form,
                                                                        std::span<const char> message,
                                                                        std::index_sequence<number...>) {
    std::optional<BridgeRequest> request;
    ((form == number + 1 && (request = read_as<std::variant_alternative_t<number, BridgeRequest>>(message), true)) ||
     ...);
    return request;
}

}  // namespace

std::optional<BridgeRequest> read_request(std::span<const char> message) {
    std::uint32_t form = 0;
    if (message.size() < sizeof form) return {};
    std::memcpy(&form, message.data(), sizeof form);
    return read_form(form, message, std::make_index_sequence<std::variant_size_v<BridgeRequest>>());
}

}  // namespace barcuda
