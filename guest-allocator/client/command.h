// SPDX-License-Identifier: Apache-2.0
// command.h: a row of the command table as a call: the arguments are packed, the command leaves, and, unless it is
// posted, its reply is unpacked. One template for every command.
#pragma once
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/client/log.h"
#include "shm-device/commands.h"
#include "shm-device/trace.h"

namespace barcuda::guest {

template <Op op, class... Given> CUresult command(Given... given) noexcept {
    using R = RowOf<op>;
    const trace::Slice slice(op_names[static_cast<std::size_t>(op)]);
    Client* client = Client::get();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    const RowNumber number = host_rows::numbers[static_cast<std::size_t>(op)];
    if (number == no_row) [[unlikely]]
        return host_rows::missing(op, client->header());
    typename R::Arguments arguments{real(given)...};
    typename R::Parameters parameters{};
    const CUresult result = [&]<std::size_t... I>(std::index_sequence<I...>) {
        CUresult result = CUDA_SUCCESS;
        if (!(((result = std::get<I>(parameters).valid(arguments, *client)) == CUDA_SUCCESS) && ...)) return result;
        const std::size_t request = (sizeof(RequestHead) + ... + std::get<I>(parameters).room(arguments));
        const std::size_t reply =
            R::how == How::post ? 0 : (sizeof(ReplyHead) + ... + std::get<I>(parameters).room_back(arguments));
        const Queue::Ticket ticket =
            client->queue().submit(request, reply, has(op, trait::work), [&](std::span<std::byte> to) {
                Writer w(to);
                w.put(RequestHead{number, current_context_id()});
                (std::get<I>(parameters).send(w, arguments, *client), ...);
            });
        if (ticket.sequence == 0) return ticket.error;
        Reader r(ticket.reply);
        if constexpr (R::how == How::post)
            return (std::get<I>(parameters).receive(r, arguments, *client), ...), CUDA_SUCCESS;
        if ((result = client->queue().await(ticket)) == CUDA_SUCCESS) {
            ReplyHead head{CUDA_ERROR_UNKNOWN, 0};
            r.get(head);
            result = static_cast<CUresult>(head.result);
            if (result == CUDA_SUCCESS) (std::get<I>(parameters).receive(r, arguments, *client), ...);
        }
        client->queue().finish(ticket);
        if (result == CUDA_ERROR_ASSERT && !has(op, trait::reports)) [[unlikely]]
            show_assert();
        if (result != CUDA_SUCCESS) (std::get<I>(parameters).failed(*client), ...);
        return result;
    }
    (std::make_index_sequence<R::count>{});
    if (result != CUDA_SUCCESS) [[unlikely]]
        log_failure(op_names[static_cast<std::size_t>(op)].data(), result);
    return result;
}

}  // namespace barcuda::guest
