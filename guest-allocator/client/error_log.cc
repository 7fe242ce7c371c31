// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/error_log.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "guest-allocator/client/mutex.h"

namespace barcuda::guest::error_log {
namespace {

// As much as CUDA keeps: 25,600 bytes.
constexpr unsigned kept = 100, line_bytes = 256;
constinit char lines[kept][line_bytes];
constinit unsigned total = 0;

struct Hearer {
    CUlogsCallback function;
    void* data;
};
constinit Hearer hearers[32] = {};  // programs have one, of each framework in them
constinit Mutex mutex;
thread_local constinit bool telling = false;  // who hears of an error may make one

CUlogsCallbackHandle handle_of(Hearer& h) { return reinterpret_cast<CUlogsCallbackHandle>(&h); }

}  // namespace

void add(const char* message) noexcept {
    Hearer told[std::size(hearers)];
    {
        std::lock_guard lock(mutex);
        std::snprintf(lines[total++ % kept], line_bytes, "%s", message);
        std::copy(std::begin(hearers), std::end(hearers), told);
    }
    if (telling) return;
    telling = true;
    char text[line_bytes];
    for (const Hearer& h : told)
        if (h.function) h.function(h.data, CU_LOG_LEVEL_ERROR, text, std::snprintf(text, sizeof text, "%s", message));
    telling = false;
}

CUlogsCallbackHandle hear(CUlogsCallback function, void* data) noexcept {
    std::lock_guard lock(mutex);
    for (Hearer& h : hearers)
        if (!h.function) {
            h = {function, data};
            return handle_of(h);
        }
    return nullptr;
}
bool unhear(CUlogsCallbackHandle handle) noexcept {
    std::lock_guard lock(mutex);
    for (Hearer& h : hearers)
        if (h.function && handle_of(h) == handle) {
            h = {};
            return true;
        }
    return false;
}

unsigned count() noexcept {
    std::lock_guard lock(mutex);
    return total;
}

std::string since(unsigned first, std::size_t room) {
    std::lock_guard lock(mutex);
    const unsigned wanted = total - first, there = std::min({wanted, total, kept});
    const auto newest = [there](std::size_t most, unsigned& taken) {
        std::string text;
        for (taken = 0; taken < there; ++taken) {
            const std::string line = lines[(total - 1 - taken) % kept] + std::string("\n");
            if (line.size() > most - text.size()) break;
            text.insert(0, line);
        }
        return text;
    };
    unsigned taken = 0;
    const std::string text = newest(room, taken), gone = "(older messages are left out)\n";
    if (taken == wanted || gone.size() >= room) return text;
    const std::string fewer = newest(room - gone.size(), taken);  // so that there is room to say it
    if (!fewer.empty()) return gone + fewer;
    return text;
}

}  // namespace barcuda::guest::error_log
