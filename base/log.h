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

// Text of a guest's or a driver's, for a terminal and a file that is read line by line: what would move a cursor, or begin a
// line that looks like ours, stands there as \x1b. `lines`: it may have several of its own.
std::string escaped(std::string_view text, bool lines = false);

// From now on lines go there: "2026-11-22 12:00:01.123 info NAME VM: ...". In journald's stream, which has the time and shows the level
// itself, "<6>NAME VM: ...". `least` is the name of a level of spdlog's: what is below is not said.
void start(std::FILE* to, const std::string& name, const std::string& least, const std::string& vm = {});

// The same for a worker, whose bridge reads what it writes, and has the time and the names: "<6>..."
// (bridge/worker_log.h).
void start_worker(std::FILE* to, const std::string& least);

// From now on no more of our own lines than so many bytes a second (0: any number), which is looked up at each line:
// that word may change. Ten seconds' worth may come at once. What was left out is said as soon as there is room again.
void limit(const std::uint64_t& bytes_a_second);
// A line of somebody else's, whose length and number are bounded already.
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
