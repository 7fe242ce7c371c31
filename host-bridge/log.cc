// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace barcuda::log {

using Clock = std::chrono::steady_clock;

static_assert(static_cast<int>(Level::debug) == SPDLOG_LEVEL_DEBUG);
static_assert(static_cast<int>(Level::critical) == SPDLOG_LEVEL_CRITICAL);

void start(std::FILE* to, const std::string& name, const std::string& least) {
    using Sink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("barcuda", std::make_shared<Sink>(to)));
    spdlog::set_pattern(name + ": %v");
    spdlog::set_level(spdlog::level::from_str(least));
}

std::string escaped(std::string_view text, bool lines) {
    std::string plain;
    plain.reserve(text.size());
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if ((code >= 0x20 && code != 0x7f) || c == '\t' || (lines && c == '\n')) plain += c;
        else plain += fmt::format("\\x{:02x}", code);
    }
    return plain;
}

namespace {

struct {
    std::mutex mutex;
    const std::uint64_t* rate = nullptr;
    double room = 0;  // bytes
    Clock::time_point since{};
    std::uint64_t left_out = 0;  // times
} allowed;

}  // namespace

void limit(const std::uint64_t& bytes_a_second) {
    const std::lock_guard lock(allowed.mutex);
    allowed.rate = &bytes_a_second;
}

bool has_room(std::size_t bytes) {
    constexpr double seconds = 10;
    const std::lock_guard lock(allowed.mutex);
    const std::uint64_t rate =
        allowed.rate ? std::atomic_ref(const_cast<std::uint64_t&>(*allowed.rate)).load(std::memory_order_relaxed) : 0;
    if (rate == 0) return true;
    const auto now = Clock::now();
    const std::chrono::duration<double> passed = now - allowed.since;
    const auto per_second = static_cast<double>(rate);
    allowed.room = std::min(seconds * per_second, allowed.room + passed.count() * per_second);
    allowed.since = now;
    if (allowed.room < static_cast<double>(bytes)) return ++allowed.left_out, false;
    allowed.room -= static_cast<double>(bytes);
    if (const std::uint64_t gone = std::exchange(allowed.left_out, 0))
        spdlog::log(spdlog::level::warn, "{} lines were left out (log-text)", gone);
    return true;
}

void write(Level level, fmt::string_view format, fmt::format_args arguments) {
    const auto at = static_cast<spdlog::level::level_enum>(level);
    if (!spdlog::should_log(at)) return;
    const std::string text = escaped(fmt::vformat(format, arguments));
    if (level == Level::critical || has_room(text.size())) spdlog::log(at, text);
}

}  // namespace barcuda::log
