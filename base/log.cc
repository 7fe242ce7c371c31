// SPDX-License-Identifier: Apache-2.0
// log.cc: the only file that includes spdlog: all of it is in its headers (fmt.cc).
#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "base/bucket.h"

namespace barcuda::log {

static_assert(static_cast<int>(Level::debug) == SPDLOG_LEVEL_DEBUG);
static_assert(static_cast<int>(Level::critical) == SPDLOG_LEVEL_CRITICAL);

namespace {

// The priority as in sd-daemon(3): journald reads it from the beginning of a line.
class Priority : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
        constexpr char digits[] = {'7', '7', '6', '4', '3', '2', '5'};  // by spdlog's levels: trace, debug, ...
        line.push_back(digits[std::min<std::size_t>(message.level, std::size(digits) - 1)]);
    }
    std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Priority>(); }
};

// systemd names the file of its journal's stream. The variable alone does not show that this descriptor is that file.
bool is_journal(std::FILE* to) {
    const char* const stream = std::getenv("JOURNAL_STREAM");
    struct stat st {};
    return stream && fstat(fileno(to), &st) == 0 && fmt::format("{}:{}", st.st_dev, st.st_ino) == stream;
}

}  // namespace

namespace {

void begin(std::FILE* to, const std::string& pattern, const std::string& least) {
    tzset();  // reads the time zone's file, which a worker in its cage cannot
    using Sink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("barcuda", std::make_shared<Sink>(to)));
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Priority>('P');
    formatter->set_pattern(pattern);
    spdlog::set_formatter(std::move(formatter));
    spdlog::set_level(spdlog::level::from_str(least));
}

}  // namespace

void start(std::FILE* to, const std::string& name, const std::string& least, const std::string& vm) {
    const std::string who = vm.empty() ? name : name + " " + vm;
    begin(to, (is_journal(to) ? "<%P>" : "%Y-%m-%d %H:%M:%S.%e %l ") + who + ": %v", least);
}

void start_worker(std::FILE* to, const std::string& least) { begin(to, "<%P>%v", least); }

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
    Bucket bytes;
    std::uint64_t left_out = 0;  // number of lines
} allowed;

bool has_room(std::size_t bytes) {
    constexpr double seconds = 10;
    const std::lock_guard lock(allowed.mutex);
    const std::uint64_t rate =
        allowed.rate ? std::atomic_ref(const_cast<std::uint64_t&>(*allowed.rate)).load(std::memory_order_relaxed) : 0;
    if (rate == 0) return true;
    const auto a_second = static_cast<double>(rate);
    if (!allowed.bytes.take(static_cast<double>(bytes), {a_second, seconds * a_second}, Bucket::Time::clock::now())) {
        ++allowed.left_out;
        return false;
    }
    if (const std::uint64_t gone = std::exchange(allowed.left_out, 0))
        spdlog::log(spdlog::level::warn, "{} lines were left out (log-text)", gone);
    return true;
}

}  // namespace

void limit(const std::uint64_t& bytes_a_second) {
    const std::lock_guard lock(allowed.mutex);
    allowed.rate = &bytes_a_second;
}

void pass_on(Level level, std::string_view text) {
    const auto at = static_cast<spdlog::level::level_enum>(level);
    if (spdlog::should_log(at)) spdlog::log(at, escaped(text));
}

void write(Level level, fmt::string_view format, fmt::format_args arguments) {
    const auto at = static_cast<spdlog::level::level_enum>(level);
    if (!spdlog::should_log(at)) return;
    const std::string text = escaped(fmt::vformat(format, arguments));
    if (level == Level::critical || has_room(text.size())) spdlog::log(at, text);
}

}  // namespace barcuda::log
