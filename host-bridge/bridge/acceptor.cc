// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/acceptor.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "host-bridge/between/link.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/client_base.h"

namespace barcuda {

Acceptor::Acceptor(Clients& clients, Pool& pool, const LimitsDesk& limits, HeapDesk& heap, const Host& host,
                   Totals& totals, std::function<bool()> interrupts)
    : clients_(clients),
      pool_(pool),
      limits_(limits),
      heap_(heap),
      host_(host),
      totals_(totals),
      interrupts_(std::move(interrupts)) {}

void Acceptor::admit(const std::vector<Client*>& waiting, const std::function<void(Client&)>& arrived,
                     Clock::time_point now) {
    some_wait_ = false;
    for (Client* const client : waiting) {
        const std::uint32_t process = client->pid();
        const Admissions::Answer answer = admissions_.ask(process, limits_.of_guest(Limit::starts), now);
        if (answer != Admissions::Answer::now) {
            some_wait_ = true;
            tell_of_waiting(answer, process, now);
            continue;
        }
        const Failure refusal = serve(*client);
        if (refusal) client->end(Client::Ending::refused, refusal.text());
        clients_.admitted(*client, refusal ? Client::Admission::refused : Client::Admission::granted);
        if (refusal) continue;
        log::info("channel {}: client admitted, worker {}: {}", client->slot(), client->worker->pid(),
                  client->record.text());
        arrived(*client);
        pool_.served(client->worker->devices());
        pool_.keep(clients_.state());
    }
}

void Acceptor::tell_of_waiting(Admissions::Answer answer, std::uint32_t process, Clock::time_point now) {
    constexpr Bucket::Rate seldom{.a_second = 0.1, .at_once = 1};
    if (!told_of_waiting_.take(1, seldom, now)) return;
    if (answer == Admissions::Answer::process_waits)
        log::warn("the process with pid {} opens one channel after the other: from now on it waits for each", process);
    else
        log::warn("more clients start than the guest may start in a second ({}): they wait",
                  limits_.of_guest(Limit::starts));
}

// Guest memory: copied, and the copy checked.
Failure Acceptor::devices_of(const Client& client, std::vector<int>& devices) const {
    devices.resize(std::min<std::uint32_t>(observe(client.page().device_count), BARCUDA_MAX_DEVICES));
    for (std::size_t i = 0; i < devices.size(); ++i) {
        devices[i] = observe(client.page().devices[i]);
        const auto before = devices.begin() + static_cast<std::ptrdiff_t>(i);
        if (devices[i] >= static_cast<int>(host_.every.size()) || std::count(devices.begin(), before, devices[i]))
            return "the client asked for a device that does not exist, or for one device twice";
    }
    return {};
}

// The same. Its worker maps the client's memory there, and nowhere else.
Failure Acceptor::base_of(const Client& client, std::uint64_t& base) const {
    const Shape& shape = clients_.shape();
    base = barcuda::base_of(observe(client.page().base), shape.base);
    const Error e = check_client_base(base, shape.size, "the client's region", shape.windows);
    return e ? e.text : "";
}

// Its worker is one whose driver shows these devices alone, in this order.
Failure Acceptor::serve(Client& client) {
    const std::uint32_t slot = client.slot();
    client.introduce();
    std::vector<int> devices;
    if (Failure why = devices_of(client, devices)) return why;
    if (Failure why = base_of(client, client.base)) return why;
    if (!limits_.has_a_channel_left())
        return fmt::format("the guest has as many clients as it may have ({})", limits_.of_guest(Limit::channels));
    auto worker = pool_.take(devices, [&](std::uint64_t bytes) { return bytes <= limits_.room(slot); });
    if (!worker) return fmt::format("the bridge cannot start a worker: {}", strerror(errno));
    worker->assign(fmt::format("channel {}: worker {}", slot, worker->pid()));
    client.record.worker = worker->pid();
    client.worker = std::move(worker);
    client.write_down();  // before anything is the client's: what follows can be done again
    assign(client);
    ++totals_.came;
    return {};
}

void Acceptor::assign(Client& client) {
    if (!heap_.hand_over(client)) return client.end_worker("its worker has prepared memory of another client");
    limits_.tell(client);
    const Assignment job{client.channel.offset, client.base, client.slot(), client.channel.opening, interrupts_()};
    records::step();
    send(client.worker->link(), &job, sizeof job, MSG_NOSIGNAL);  // one that has died meanwhile is noticed by its end
    client.told = true;
    client.write_down();
}

void Acceptor::restore(Client& client) {
    if (!client.is_served()) return;
    if (client.told) limits_.tell(client);
    else assign(client);
}

}  // namespace barcuda
