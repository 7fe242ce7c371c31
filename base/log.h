// SPDX-License-Identifier: Apache-2.0
// log.h: what bridge and worker say: log::warn("channel {}: ...", channel), in fmt's format. spdlog writes it; its own
// templates would have the compiler make fmt's whole formatter again in each file that says something.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace barcuda::log {

enum class Level { debug = 1, info, warn, error, critical };  // spdlog's numbers

// Escapes text of a guest or a driver for a terminal and for a file that is read line by line: characters that move a
// cursor, or begin a line that looks like ours, become \x1b. `lines`: the text may have several lines.
std::string escaped(std::string_view text, bool lines = false);

// Writes lines to this file from now on: "2026-11-22 12:00:01.123 info NAME VM: ...". In journald's stream, which has
// the time and shows the level itself: "<6>NAME VM: ...". `least` is the name of a level of spdlog: lower levels are
// not written.
void start(std::FILE* to, const std::string& name, const std::string& least, const std::string& vm = {});

// The same for a worker, whose bridge reads the lines and adds the time and the names: "<6>..." (bridge/worker_log.h).
void start_worker(std::FILE* to, const std::string& least);

// Limits this process's own lines to this number of bytes a second (0: no limit). The word is read at each line, so it
// may change. Ten seconds' worth may come at once. The number of dropped lines is written as soon as there is room
// again.
void limit(const std::uint64_t& bytes_a_second);
// Writes a line of another process, whose length and number are bounded already.
void pass_on(Level level, std::string_view text);

void write(Level level, fmt::string_view format, fmt::format_args arguments);

#define LEVEL(name)                                                                           \
    template <class... T> void name(fmt::format_string<T...> format, const T&... arguments) { \
        write(Level::name, format, fmt::make_format_args(arguments...));                      \
    }
LEVEL(debug)
LEVEL(info)
LEVEL(warn)
LEVEL(error)
LEVEL(critical)
#undef LEVEL

}  // namespace barcuda::log
