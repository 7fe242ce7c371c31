// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/worker_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace barcuda {
namespace {

// Read at most this much at a time: what a pipe holds.
constexpr std::size_t pipes_worth = 64 << 10;
// A worker that has said too much waits this long for each further pipe's worth, which is dropped.
constexpr std::chrono::milliseconds quiet{100};

// Removes the level at the beginning of a line; only the bridge may log critical lines.
log::Level take_level(std::string_view& line) {
    if (line.size() < 3 || line[0] != '<' || line[1] < '0' || line[1] > '7' || line[2] != '>') return log::Level::warn;
    const char digit = line[1];
    line.remove_prefix(3);
    return digit <= '3'   ? log::Level::error
           : digit <= '5' ? log::Level::warn
           : digit == '6' ? log::Level::info
                          : log::Level::debug;
}

}  // namespace

bool WorkerLog::may_say(std::size_t bytes, const Limits& limits, Time now) {
    const auto rate = [](std::uint64_t a_second) {
        const auto n = static_cast<double>(a_second);
        return Bucket::Rate{n, seconds_at_once * n};
    };
    const auto amount = static_cast<double>(bytes);
    if (limits.own != 0 && !budget_.take(amount, rate(limits.own), now)) return false;
    return limits.all == 0 || !limits.shared || limits.shared->take(amount, rate(limits.all), now);
}

void WorkerLog::tell_left_out(const Say& say) {
    if (const std::uint64_t lines = std::exchange(left_out_, 0))
        say(log::Level::warn, fmt::format("{} lines were left out (log-text)", lines));
}

void WorkerLog::finish_line(const Limits& limits, Time now, const Say& say) {
    if (!std::exchange(begun_, false)) return;
    std::string text = std::exchange(line_, {});
    if (std::exchange(cut_, false)) text += "...";
    // Journald hides a line that is not UTF-8, and a line may have been cut within a character.
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    std::string_view line = text;
    const log::Level level = take_level(line);
    if (!may_say(line.size() + 1, limits, now)) {
        ++left_out_;
        quiet_until_ = now + quiet;
        return;
    }
    tell_left_out(say);
    if (!line.empty()) say(level, line);
}

void WorkerLog::add(std::string_view text, const Limits& limits, Time now, const Say& say) {
    for (const char c : text) {
        if (c == '\n') {
            finish_line(limits, now, say);
            continue;
        }
        begun_ = true;
        if (line_.size() < longest_line) line_ += c;
        else cut_ = true;
    }
}

void WorkerLog::read_on(const Limits& limits, Time now, const Say& say) {
    char piece[4096];
    ssize_t n = 0;
    for (std::size_t all = 0; all < pipes_worth && (n = read(pipe_.fd(), piece, sizeof piece)) > 0;) {
        all += static_cast<std::size_t>(n);
        add({piece, static_cast<std::size_t>(n)}, limits, now, say);
    }
    if (n == 0) over_ = true;
}

void WorkerLog::end(const Limits& limits, Time now, const Say& say) {
    quiet_until_ = {};
    if (pipe_ && !over_) read_on(limits, now, say);
    finish_line(limits, now, say);
    tell_left_out(say);
    pipe_ = File();
}

}  // namespace barcuda
