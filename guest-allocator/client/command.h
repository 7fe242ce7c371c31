// command.h: a row of the command table as a call: the arguments are packed, the command leaves, and, unless it is
// posted, its reply is unpacked. One template for every command.
#pragma once
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/context.h"
#include "guest-allocator/driver/module.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/client/fence.h"
#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/client/log.h"
#include "shm-device/commands.h"
#include "shm-device/trace.h"

namespace barcuda {

template <class T> T real(T argument) noexcept { return argument; }  // beside streams.h and module.h

// A command on its way, for who does not wait for it as command() does.
template <Op op> class Call {
    using R = RowOf<op>;
    static constexpr auto each = std::make_index_sequence<R::count>{};
    typename R::Arguments arguments_;
    typename R::Parameters parameters_{};
    Queue::Ticket ticket_;

  public:
    template <class... Given> explicit Call(Given... given) noexcept : arguments_{real(given)...} {}

    // Checks the arguments and puts them into the queue. `wait`: for room there; else CUDA_ERROR_NOT_READY.
    CUresult send(Client& client, bool wait = true) noexcept {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            const RowNumber number = host_rows::numbers[static_cast<std::size_t>(op)];
            if (number == no_row) [[unlikely]]
                return host_rows::missing(op, client.header());
            CUresult result = CUDA_SUCCESS;
            if (!(((result = std::get<I>(parameters_).valid(arguments_, client)) == CUDA_SUCCESS) && ...))
                return result;
            const std::size_t request = (sizeof(RequestHead) + ... + std::get<I>(parameters_).room(arguments_));
            const std::size_t reply =
                R::how == How::post ? 0 : (sizeof(ReplyHead) + ... + std::get<I>(parameters_).room_back(arguments_));
            ticket_ = client.queue().submit(request, reply, has(op, trait::work), wait, [&](std::span<std::byte> to) {
                Writer w(to);
                w.put(RequestHead{number, current_context_id()});
                (std::get<I>(parameters_).send(w, arguments_, client), ...);
            });
            return ticket_.sequence == 0 ? ticket_.error : CUDA_SUCCESS;
        }
        (each);
    }
    // Until it has been answered, or for so many nanoseconds: then CUDA_ERROR_NOT_READY.
    CUresult await(Client& client, std::uint64_t limit = Queue::for_ever) noexcept {
        return client.queue().await(ticket_, limit);
    }
    // After that, for who does not wait any longer: the answer will be in `store`.
    void leave(Client& client, std::span<std::byte> store) noexcept { client.queue().leave(ticket_, store); }
    // What came back. Of a posted command: nothing, at once.
    CUresult receive(Client& client, CUresult result = CUDA_SUCCESS) noexcept {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            Reader r(ticket_.reply);
            if constexpr (R::how == How::post)
                return (std::get<I>(parameters_).receive(r, arguments_, client), ...), result;
            if (result == CUDA_SUCCESS) {
                ReplyHead head{CUDA_ERROR_UNKNOWN, 0};
                r.get(head);
                result = static_cast<CUresult>(head.result);
                if (result == CUDA_SUCCESS) (std::get<I>(parameters_).receive(r, arguments_, client), ...);
            }
            client.queue().finish(ticket_);
            if (result == CUDA_ERROR_ASSERT && !has(op, trait::reports)) [[unlikely]]
                show_assert();
            if (result != CUDA_SUCCESS) (std::get<I>(parameters_).failed(client), ...);
            return result;
        }
        (each);
    }
};

template <Op op, class... Given> CUresult command(Given... given) noexcept {
    const trace::Slice slice(op_names[static_cast<std::size_t>(op)]);
    Client* client = Client::get();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    Call<op> call(given...);
    CUresult r = call.send(*client);
    if (r == CUDA_SUCCESS) r = call.receive(*client, RowOf<op>::how == How::post ? CUDA_SUCCESS : call.await(*client));
    if (r != CUDA_SUCCESS) [[unlikely]]
        log_failure(op_names[static_cast<std::size_t>(op)].data(), r);
    return r;
}

}  // namespace barcuda
