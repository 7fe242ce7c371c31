// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/suspend_desk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <span>

#include "base/field.h"
#include "base/log.h"

namespace barcuda {
namespace {

constexpr const char* kept_name = "suspend";

const char* name_of(SuspendRequest::What what) {
    switch (what) {
        case SuspendRequest::look: return "look";
        case SuspendRequest::begin: return "begin";
        case SuspendRequest::freeze: return "freeze";
        case SuspendRequest::check: return "check";
        case SuspendRequest::carry: return "carry";
        case SuspendRequest::ahead: return "ahead";
        case SuspendRequest::finish: return "finish";
        case SuspendRequest::cancel: return "cancel";
    }
    return "unknown";
}

// A file in memory, from its beginning.
File file_of(const std::string& text) {
    File file(memfd_create("barcuda-description", MFD_CLOEXEC));
    if (!file || write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return {};
    return file;
}

}  // namespace

Failure SuspendDesk::begin(Clock::time_point now) {
    std::set<std::uint32_t> paused;
    clients_.each([&](const Client& client) {
        // A parked one comes back by itself, unless it is paused now: then it must be resumed.
        const std::uint32_t slot = client.slot();
        if (client.is_served() && pauses_.state(slot) != Paused::running && !pauses_.is_parked(slot))
            paused.insert(slot);
    });
    ordered_.clear();
    frozen_.clear();
    const std::vector<std::uint32_t> slots(paused.begin(), paused.end());
    if (Failure failure = suspending_.begin(std::move(paused), now)) return failure;
    const auto bytes = std::as_bytes(std::span(slots));
    kept_.keep(kept_name, file_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).fd());
    return {};
}

void SuspendDesk::restore(Clock::time_point now) {
    const File file = kept_.take(kept_name);
    if (!file) return;
    std::vector<std::uint32_t> slots(clients_.size());
    const ssize_t n = pread(file.fd(), slots.data(), slots.size() * sizeof slots[0], 0);
    slots.resize(n < 0 ? 0 : static_cast<std::size_t>(n) / sizeof slots[0]);
    static_cast<void>(suspending_.begin({slots.begin(), slots.end()}, now));
    log::info("suspend: begun again, by the bridge that follows");
}

Failure SuspendDesk::freeze(std::vector<File>& files) {
    std::int64_t running = -1;
    clients_.each([&](const Client& client) {
        if (client.is_served() && !pauses_.is_held(client.slot())) running = client.slot();
    });
    // What the client of such a worker had is given back when the worker has gone. The command asks again.
    if (suspending_.step() == SuspendStep::begun && clients_.one_leaves()) return {};
    if (Failure failure = suspending_.freeze(running)) return failure;
    clients_.each([this](Client& client) {
        if (client.is_served()) {
            client.worker->ignore_requests();
            frozen_.insert(client.slot());
        }
        client.write_down();
    });
    files.push_back(file_of(given_.description()));
    files.push_back(given_.region());
    files.push_back(given_.books());
    return std::ranges::all_of(files, [](const File& file) { return static_cast<bool>(file); })
               ? Failure()
               : fmt::format("its books or its region have no file of their own: {}", strerror(errno));
}

Failure SuspendDesk::order(std::uint32_t channel, bool check, std::vector<File>& files) {
    if (!suspending_.frozen()) return "no suspend is under way, or it is not frozen yet";
    Client* const client = channel < clients_.size() ? clients_[channel] : nullptr;
    if (!client || !client->is_served()) return fmt::format("channel {} has no client with a worker", channel);
    if (Failure failure = workers_.order(*client, check, files)) return failure;
    ordered_[channel] = check;
    return {};
}

Failure SuspendDesk::order_ahead(std::uint32_t channel, std::vector<File>& files) {
    if (suspending_.under_way()) return "a suspend is under way";
    Client* const client = channel < clients_.size() ? clients_[channel] : nullptr;
    if (!client || !client->is_served()) return fmt::format("channel {} has no client with a worker", channel);
    return workers_.ahead(*client, files);
}

Failure SuspendDesk::finish() {
    if (!suspending_.frozen()) return suspending_.finish();  // says why
    for (const std::uint32_t slot : frozen_) {
        const Client* const client = clients_[slot];
        if (!client || !client->is_served() || client->worker->has_gone())
            return fmt::format("the client of channel {} has ended meanwhile", slot);
        const auto its = ordered_.find(slot);
        if (its == ordered_.end() || its->second || row(*client).state != SuspendRow::able)
            return fmt::format("the client of channel {} was not carried", slot);
    }
    kept_.drop(kept_name);
    return suspending_.finish();
}

// All is as it was before.
void SuspendDesk::give_up(const std::string& why) {
    if (!suspending_.under_way()) return;
    const bool frozen = suspending_.frozen();
    suspending_.give_up();
    kept_.drop(kept_name);
    for (const auto& [slot, check] : ordered_)
        if (Client* const client = clients_[slot]; client && client->is_served()) workers_.withdraw(*client);
    ordered_.clear();
    frozen_.clear();
    log::info("suspend: given up: {}", why);
    clients_.each([&](Client& client) {
        if (!client.is_served()) return;
        if (frozen) listen_(client);
        if (suspending_.resumes(client.slot())) returning_.insert(client.slot());
    });
    look();
}

SuspendRow SuspendDesk::row(const Client& client) const {
    SuspendRow row{};
    row.channel = client.slot();
    row.pid = client.record.pid;
    row.worker = client.worker->pid();
    put(row.program, client.record.program);
    if (ordered_.contains(client.slot())) workers_.look(client, row);
    return row;
}

std::vector<File> SuspendDesk::serve(const SuspendRequest& request, SuspendReply& reply, const ucred& by,
                                     Clock::time_point now) {
    std::vector<File> files;
    Failure failure;
    switch (request.what) {
        case SuspendRequest::begin: failure = begin(now); break;
        case SuspendRequest::freeze: failure = freeze(files); break;
        case SuspendRequest::check:
        case SuspendRequest::carry:
            failure = order(request.channel, request.what == SuspendRequest::check, files);
            break;
        case SuspendRequest::ahead: failure = order_ahead(request.channel, files); break;
        case SuspendRequest::finish: failure = finish(); break;
        case SuspendRequest::cancel: give_up("the command says so"); break;
        case SuspendRequest::look: break;
        default: failure = "the bridge does not know this request";
    }
    suspending_.heard(now);
    const bool waits = request.what == SuspendRequest::freeze && !failure && !suspending_.frozen();
    if (request.what != SuspendRequest::look && !waits)
        log::info("suspend: {}{} (user {}, pid {})", name_of(request.what),
                  failure ? ", refused: " + failure.text() : "", by.uid, by.pid);
    put(reply.error, failure.text());
    reply.step = suspending_.step();
    reply.returning = static_cast<std::uint32_t>(returning_.size());
    clients_.each([&](const Client& client) {
        if (client.is_served()) reply.rows[reply.count++] = row(client);
    });
    return failure ? std::vector<File>() : std::move(files);
}

void SuspendDesk::look(Clock::time_point now) {
    if (suspending_.is_late(now)) give_up("the command that ordered it says nothing more");
    // One whose pause is under way yet is resumed after that.
    std::erase_if(returning_, [this](std::uint32_t slot) {
        Client* const client = clients_[slot];
        return !client || !client->is_served() || pauses_.resume(*client);
    });
}

}  // namespace barcuda
