// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/upgrade_desk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/field.h"
#include "base/log.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// The path of this program's file, also if there is another file now.
std::string own_program() {
    std::error_code ec;
    std::string path = std::filesystem::read_symlink("/proc/self/exe", ec);
    constexpr std::string_view deleted = " (deleted)";
    if (path.ends_with(deleted)) path.resize(path.size() - deleted.size());
    return path;
}

}  // namespace

// New clients may get workers of this build at any time, so its own link counts as in use.
Numbers UpgradeDesk::in_use() const {
    Numbers numbers = Numbers::of_this_build();
    Numbers::Range& link = numbers.of[Numbers::link];
    link.oldest = link.newest;
    clients_.each([&](const Client& client) {
        if (client.worker) link.oldest = std::min(link.oldest, observe(client.worker->sheet().orders.link));
    });
    numbers.of[Numbers::keeper] = {};  // the keeper adds its own
    return numbers;
}

Failure UpgradeDesk::order(const UpgradeRequest& request, const std::string& program) {
    if (program.empty() || program.front() != '/') return "the path of the file does not begin with /";
    if (request.within == 0 || request.within > keeping::longest_wait)
        return fmt::format("--within is more than 0 s and at most {} s", keeping::longest_wait / 1000);
    const File file(open(program.c_str(), O_PATH | O_CLOEXEC));
    if (!file) return fmt::format("{}: {}", program, strerror(errno));
    const int error =
        kept_.upgrade({request.what == UpgradeRequest::check, in_use().words(), request.within}, file.fd());
    if (error == EBUSY) return "an upgrade is under way already";
    if (error != 0) return fmt::format("the keeper refuses: {}", strerror(error));
    return {};
}

void UpgradeDesk::serve(const UpgradeRequest& request, UpgradeReply& reply, const ucred& by) {
    if (!kept_) return put(reply.error, "this bridge has no keeper");
    const std::string named(request.program, strnlen(request.program, sizeof request.program - 1));
    const std::string program = named.empty() ? own_program() : named;
    if (request.what == UpgradeRequest::check || request.what == UpgradeRequest::upgrade) {
        const Failure refusal = order(request, program);
        log::info("upgrade: {} by {}{} (user {}, pid {})",
                  request.what == UpgradeRequest::check ? "check of a replacement" : "replacement",
                  log::escaped(program), refusal ? ", refused: " + refusal.text() : "", by.uid, by.pid);
        if (refusal) return put(reply.error, refusal.text());
    }
    const Kept::Progress progress = kept_.progress();
    put(reply.build, BARCUDA_VERSION);
    put(reply.program, program);
    reply.pid = getpid();
    clients_.each([&](const Client& client) { reply.clients += client.is_served(); });
    reply.step = progress.step;
    reply.attempt = progress.attempt;
    reply.count = static_cast<std::uint32_t>(progress.text.copy(reply.rows, sizeof reply.rows));
}

}  // namespace barcuda
