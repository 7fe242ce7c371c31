// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/requests.h"

#include <cuda.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"

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
    const auto read_if = [&]<class Request>(std::type_identity<Request>) {
        if (form == form_of<Request>()) request = read_as<Request>(message);
    };
    (read_if(std::type_identity<std::variant_alternative_t<number, BridgeRequest>>()), ...);
    return request;
}

std::uint64_t number_of(std::span<const char> message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + offsetof(Message<request::Grant>, number), sizeof number);
    return number;
}

// Of which the request is about device memory.
const std::uint64_t* device_of(const BridgeRequest& request) {
    if (const auto* borrow = std::get_if<request::Borrow>(&request)) return &borrow->device;
    if (const auto* repay = std::get_if<request::Repay>(&request)) return &repay->device;
    return nullptr;
}

void take_from(int link) {
    char byte;
    records::step();
    recv(link, &byte, sizeof byte, MSG_DONTWAIT);
}

}  // namespace

std::optional<BridgeRequest> read_request(std::span<const char> message) {
    std::uint32_t form = 0;
    if (message.size() < sizeof form) return {};
    std::memcpy(&form, message.data(), sizeof form);
    return read_form(form, message, std::make_index_sequence<std::variant_size_v<BridgeRequest>>());
}

bool Requests::hear(Client& client) {
    return client.worker->hear_requests(loop_, [this, &client] { receive(client); });
}

void Requests::receive(Client& client) {
    char bytes[longest_request];
    File file;
    const int link = client.worker->link();
    const ssize_t length = receive_message(link, bytes, sizeof bytes, file, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK);
    if (length <= 0) return;  // the worker has ended
    const std::span message(bytes, std::min(static_cast<std::size_t>(length), sizeof bytes));
    const auto request =
        static_cast<std::size_t>(length) <= sizeof bytes ? read_request(message) : std::optional<BridgeRequest>();
    if (!request) return client.end_worker("the worker sent a request that this version does not know");
    if (client.worker->mapper().is_expected() && !std::holds_alternative<request::Mapper>(*request))
        return client.end_worker("the worker's first message does not report its mapper");
    const std::uint64_t number = number_of(message);
    const KeptRequest last = client.request();
    const bool again = number != 0 && number == last.number;
    const bool waits = again && (client.asked || desks_.cards.makes_room(client)),
               was_answered = again && last.state == KeptRequest::answered;
    if ((number != 0 && number < last.number) || waits) return take_from(link);
    if (was_answered && !std::holds_alternative<request::Find>(*request)) {  // which a descriptor may belong to
        if (!std::holds_alternative<request::StoreRoom>(*request)) client.repeat(last);  // restore() has repeated that
        return take_from(link);
    }
    if (again) client.go_on_with(last);
    else client.begin_request(number, message, lent(client, *request));
    serve(client, *request, std::move(file), again);
    if (client.is_served()) take_from(link);
}

std::uint64_t Requests::lent(const Client& client, const BridgeRequest& request) const {
    const std::uint64_t* const device = device_of(request);
    const auto& devices = client.worker->devices();
    if (std::holds_alternative<request::StoreRoom>(request)) return desks_.cards.next_room(client);
    return device && *device < devices.size() ? desks_.quotas.lent(client.slot(), devices[*device]) : 0;
}

// `again`: an earlier bridge may have done a part of it.
void Requests::serve(Client& client, const BridgeRequest& request, File file, bool again) {
    if (const auto* const release = std::get_if<request::Release>(&request); release && again) {
        desks_.grants.release_rest(client.slot(), {release->offset, release->bytes});
        return client.answer(Answer<request::Release>());
    }
    std::visit([&](const auto& asked) { serve(client, asked, std::move(file)); }, request);
}

void Requests::restore(Client& client) {
    if (client.is_served() && client.worker->mapper().fd() >= 0 &&
        !client.worker->hear_mapper(loop_, [this, &client](short events) { answer_mapper(client, events); }))
        return client.end_worker("the bridge cannot listen to the worker's mapper");
    const KeptRequest last = client.request();
    const bool half_done = last.state == KeptRequest::asked;
    desks_.grants.settle(client.slot(), !half_done);
    desks_.shared.settle(client.slot(), !half_done);
    if (last.state == KeptRequest::none || !client.is_served()) return;
    client.go_on_with(last);
    std::uint32_t form = 0;
    std::memcpy(&form, last.message, sizeof form);
    const bool is_grant = form == form_of<request::Grant>(), is_room = form == form_of<request::StoreRoom>();
    if (!half_done) {
        if (is_grant) client.repeat(last);
        if (is_room) desks_.cards.repeat_room(client, last);
        return;
    }
    const auto request = read_request({last.message, std::min<std::size_t>(last.bytes, sizeof last.message)});
    if (!request) return;
    const auto& devices = client.worker->devices();
    if (const std::uint64_t* const device = device_of(*request); device && *device < devices.size())
        desks_.quotas.set_lent(client.slot(), devices[*device], last.lent);
    if (is_room) desks_.cards.drop_room(client, last.lent);
    if (is_grant || is_room) serve(client, *request, {}, true);
}

void Requests::serve(Client& client, const request::Mapper&, File listener) {
    if (client.goes_on && client.worker->mapper().fd() >= 0) return;  // an earlier bridge has met it
    std::vector<int> others;
    desks_.clients.each([&](const Client& other) {
        if (&other != &client && other.worker && other.worker->mapper().fd() >= 0)
            others.push_back(other.worker->mapper().fd());
    });
    if (const char* why = client.worker->meet_mapper(std::move(listener), others)) return client.end_worker(why);
    if (!client.worker->hear_mapper(loop_, [this, &client](short events) { answer_mapper(client, events); }))
        client.end_worker("the bridge cannot listen to the worker's mapper");
}

void Requests::serve(Client& client, const request::Grant& asked, File) { desks_.heap.ask(client, asked.bytes); }

void Requests::serve(Client& client, const request::Release& asked, File) {
    const bool released = desks_.grants.release(client.slot(), {asked.offset, asked.bytes});
    client.answer(Answer<request::Release>{.error = released ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE});
}

void Requests::serve(Client& client, const request::Borrow& asked, File) {
    const std::vector<int>& devices = client.worker->devices();
    if (asked.device >= devices.size())
        return client.answer(Answer<request::Borrow>{.error = CUDA_ERROR_INVALID_DEVICE});
    const int device = devices[asked.device];
    const MemoryLimits limits = desks_.limits.memory(client);
    desks_.limits.note_memory();
    const bool lent = desks_.quotas.lend(client.slot(), device, asked.bytes, limits);
    client.answer(Answer<request::Borrow>{.error = lent ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
                                          .reply = {desks_.quotas.left(client.slot(), device, limits)}});
}

void Requests::serve(Client& client, const request::Repay& asked, File) {
    const std::vector<int>& devices = client.worker->devices();
    if (asked.device >= devices.size())
        return client.answer(Answer<request::Repay>{.error = CUDA_ERROR_INVALID_DEVICE});
    desks_.quotas.repay(client.slot(), devices[asked.device], asked.bytes);
    client.answer(Answer<request::Repay>());
}

void Requests::serve(Client& client, const request::Share& asked, File file) {
    Answer<request::Share> answer{.reply = {asked.handle}};
    if (!desks_.shared.offer(client.slot(), asked.kind, answer.reply.token, std::move(file))) {
        answer.error = CUDA_ERROR_OUT_OF_MEMORY;
        if (!std::exchange(client.told_too_much, true))
            log::warn("channel {}: the client shares more with other processes than the bridge keeps for one client",
                      client.slot());
    }
    client.answer(answer);
    desks_.shared.confirm(answer.reply.token);
}

void Requests::serve(Client& client, const request::Find& asked, File) {
    const Shared::Thing* const thing = desks_.shared.open(client.slot(), asked.kind, asked.token);
    if (!thing) return client.answer(Answer<request::Find>{.error = CUDA_ERROR_INVALID_HANDLE});
    client.answer(Answer<request::Find>{.reply = {thing->handle}}, thing->file.fd());
}

void Requests::serve(Client& client, const request::Withdraw& asked, File) {
    desks_.shared.withdraw(client.slot(), asked.token);
    client.answer(Answer<request::Withdraw>());
}

void Requests::serve(Client& client, const request::Look&, File) {
    client.answer(Answer<request::Look>{.error = desks_.cards.look_now()});
}

void Requests::serve(Client& client, const request::StoreRoom& asked, File) {
    desks_.cards.ask_room(client, asked.bytes);
}

void Requests::serve(Client& client, const request::StoreBack& asked, File) {
    client.answer(Answer<request::StoreBack>{.error = desks_.cards.take_back(client, asked.number)});
}

void Requests::answer_mapper(Client& client, short events) {
    const Channel& channel = client.channel;
    const auto may = [&](std::uint64_t offset, std::uint64_t bytes) {
        if ((offset == channel.offset && bytes == BARCUDA_CHANNEL_SIZE) ||
            desks_.grants.let_map(channel.index, {offset, bytes}))
            return true;
        if (!std::exchange(client.told_no_mapping, true))
            log::error(
                "channel {}: its worker asked for memory that is not its client's: {:#x} bytes of the region at {:#x}",
                channel.index, bytes, offset);
        return false;
    };
    client.worker->answer_mapper(events, client.base, may);
}

void Requests::look_at_mapper(Client& client) {
    if (client.worker && client.worker->mapper().has_left_its_worker() && !client.worker->is_ending())
        client.end_worker("the worker has lost the thread that maps its client's memory");
}

}  // namespace barcuda
