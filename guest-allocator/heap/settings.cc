// SPDX-License-Identifier: Apache-2.0
// settings.cc: the heap's constructor. Before it has run, malloc is libc's (malloc.cc): the environment cannot be read
// while the loader still relocates, and what begins before us must end well without us.
#include "guest-allocator/heap/settings.h"

#include <stdlib.h>
#include <string.h>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/fork.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::heap {

Settings settings;

bool parse_mode(const char* text, Mode& out) noexcept {
    if (!strcmp(text, "auto")) {
        out = Mode::automatic;
        return true;
    }
    if (!strcmp(text, "always")) {
        out = Mode::always;
        return true;
    }
    if (!strcmp(text, "never")) {
        out = Mode::never;
        return true;
    }
    return false;
}

bool parse_bytes(const char* text, std::size_t& out) noexcept {
    std::size_t value = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; ++text)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
            return false;
    unsigned shift = 0;
    switch (*text) {
        case 'k':
        case 'K':
            shift = 10;
            ++text;
            break;
        case 'm':
        case 'M':
            shift = 20;
            ++text;
            break;
        case 'g':
        case 'G':
            shift = 30;
            ++text;
            break;
    }
    if (*text || value > SIZE_MAX >> shift) return false;
    out = value << shift;
    return true;
}

namespace {

// A wrong word must not quietly become the default, and it is the user's, not the program's: 78 is EX_CONFIG.
[[noreturn]] void refuse(const char* name, const char* text, const char* wanted) noexcept {
    say(name, text, wanted);
    _Exit(78);
}

void read() noexcept {
    if (const char* text = secure_getenv("BARCUDA_HEAP"); text && !parse_mode(text, settings.mode))
        refuse("BARCUDA_HEAP=", text, " is not auto, always or never");
    if (const char* text = secure_getenv("BARCUDA_THRESHOLD"); text && !parse_bytes(text, settings.threshold))
        refuse("BARCUDA_THRESHOLD=", text, " is not a number of bytes (K, M or G may follow)");
    if (const char* text = secure_getenv("BARCUDA_MANAGED"); text && *text) {
        settings.managed_stays = strcmp(text, "device") != 0;
        if (settings.managed_stays && strcmp(text, "host")) refuse("BARCUDA_MANAGED=", text, " is not host or device");
    }
    if (const char* text = secure_getenv("BARCUDA_STATS"); text && *text && strcmp(text, "0")) settings.stats = text;
    watch_forks();
    if (settings.mode == Mode::always) expect();
}

// Among the first of the constructors and the last of the destructors of this library.
[[gnu::constructor(101)]] void begin() { read_settings(); }
[[gnu::destructor(101)]] void end() {
    if (settings.stats && active.load()) report_at_exit(settings.stats);
}

}  // namespace

void read_settings() noexcept {
    static std::atomic_flag begun = ATOMIC_FLAG_INIT;
    if (!begun.test_and_set()) read();
}

}  // namespace barcuda::heap
