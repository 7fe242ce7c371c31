// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace barcuda::log {

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

void write(Level level, fmt::string_view format, fmt::format_args arguments) {
    const auto at = static_cast<spdlog::level::level_enum>(level);
    if (spdlog::should_log(at)) spdlog::log(at, escaped(fmt::vformat(format, arguments)));
}

}  // namespace barcuda::log
