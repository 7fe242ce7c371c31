// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/requests.h"

#include <cuda.h>
#include <sys/socket.h>

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
    char message[longest_request];
    File file;
    const ssize_t bytes =
        receive_message(client.worker->link(), message, sizeof message, file, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes <= 0) return;  // the worker has ended
    const auto length = static_cast<std::size_t>(bytes);
    const auto request = length <= sizeof message ? read_request({message, length}) : std::nullopt;
    if (!request) return client.end_worker("the worker asks for something that no request of this version asks for");
    if (client.worker->mapper().is_expected() && !std::holds_alternative<request::Mapper>(*request))
        return client.end_worker("the worker does not begin by telling of its mapper");
    std::visit([&](const auto& asked) { serve(client, asked, std::move(file)); }, *request);
}

void Requests::serve(Client& client, const request::Mapper&, File listener) {
    std::vector<int> others;
    desks_.clients.each([&](const Client& other) {
        if (&other != &client && other.worker && other.worker->mapper().fd() >= 0)
            others.push_back(other.worker->mapper().fd());
    });
    if (const char* why = client.worker->meet_mapper(std::move(listener), others)) return client.end_worker(why);
    if (!client.worker->hear_mapper(loop_, [this, &client](short events) { answer_mapper(client, events); }))
        client.end_worker("the bridge cannot hear the worker's mapper");
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
            log::warn("channel {}: the client shows other processes more than the bridge keeps for one", client.slot());
    }
    client.answer(answer);
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

void Requests::answer_mapper(Client& client, short events) {
    const Channel& channel = client.channel;
    const auto may = [&](std::uint64_t offset, std::uint64_t bytes) {
        if ((offset == channel.offset && bytes == BARCUDA_CHANNEL_SIZE) ||
            desks_.grants.let_map(channel.index, {offset, bytes}))
            return true;
        if (!std::exchange(client.told_no_mapping, true))
            log::error("channel {}: its worker asks for what is not its client's: {:#x} bytes of the region at {:#x}",
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
