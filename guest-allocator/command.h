// command.h: a row of the command table as a call: the arguments are packed, the command leaves, and, unless it is
// posted, its reply is unpacked. One template for every command.
#pragma once
#include "guest-allocator/client.h"
#include "guest-allocator/context.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/fence.h"
#include "shm-device/commands.h"
#include "shm-device/trace.h"

namespace barcuda {

template <class T> T real(T argument) noexcept { return argument; }  // beside real(CUstream): streams.h

template <Op op, class... Given> CUresult command(Given... given) noexcept {
    using R = RowOf<op>;
    const trace::Slice slice(op_names[static_cast<std::size_t>(op)]);
    Client* client = Client::get();
    if (!client || forked_after_connection()) return CUDA_ERROR_NOT_INITIALIZED;
    typename R::Arguments arguments{real(given)...};
    typename R::Parameters parameters{};
    return [&]<std::size_t... I>(std::index_sequence<I...>)->CUresult {
        CUresult result = CUDA_SUCCESS;
        if (!(((result = std::get<I>(parameters).valid(arguments, *client)) == CUDA_SUCCESS) && ...)) return result;
        const std::size_t request = (sizeof(RequestHead) + ... + std::get<I>(parameters).room(arguments));
        const std::size_t reply =
            R::how == How::post ? 0 : (sizeof(ReplyHead) + ... + std::get<I>(parameters).room_back(arguments));
        const Queue::Ticket ticket =
            client->queue().submit(request, reply, is_work(op, R::how), [&](std::span<std::byte> to) {
                Writer w(to);
                w.put(RequestHead{static_cast<std::uint32_t>(op), current_context_id()});
                (std::get<I>(parameters).send(w, arguments, *client), ...);
            });
        if (ticket.sequence == 0) return ticket.error;
        if constexpr (R::how == How::post) {
            Reader nothing({});
            (std::get<I>(parameters).receive(nothing, arguments, *client), ...);
            return CUDA_SUCCESS;
        } else {
            result = client->queue().await(ticket);
            if (result == CUDA_SUCCESS) {
                Reader r(ticket.reply);
                ReplyHead head{CUDA_ERROR_UNKNOWN, 0};
                r.get(head);
                result = static_cast<CUresult>(head.result);
                if (result == CUDA_SUCCESS) (std::get<I>(parameters).receive(r, arguments, *client), ...);
            }
            client->queue().finish(ticket);
            if (result == CUDA_ERROR_ASSERT && op != Op::take_output) [[unlikely]]
                show_assert();
            if (result != CUDA_SUCCESS) (std::get<I>(parameters).failed(*client), ...);
            return result;
        }
    }
    (std::make_index_sequence<R::count>{});
}

}  // namespace barcuda
