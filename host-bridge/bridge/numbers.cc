// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "host-bridge/between/keeping.h"
#include "host-bridge/between/link.h"
#include "host-bridge/bridge/ledger.h"
#include "host-bridge/bridge/worker_process.h"
#include "shm-device/layout.h"

// A build for tests has another link (mk/tests.mk).
#ifndef BARCUDA_LINK
#define BARCUDA_LINK Orders::link_of_this_build
#define BARCUDA_OLDEST_LINK Orders::oldest_link
#endif

namespace barcuda {
namespace {

struct NumberName {
    std::string_view name;  // small letters
    std::string_view text;
};
constexpr NumberName rows[Numbers::count] = {
    {"layout", "the layout of the region"},
    {"packets", "the form of packets"},
    {"books", "the form of the bridge's books"},
    {"worker", "the form of a worker's record"},
    {"link", "the link to workers"},
    {"keeper", "the form of the keeper's messages"},
};

std::string text(const Numbers::Range& range) {
    return range.oldest == range.newest ? fmt::format("{}", range.newest)
                                        : fmt::format("{} to {}", range.oldest, range.newest);
}

bool read_number(std::string_view& from, std::uint32_t& number) {
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), number);
    from.remove_prefix(static_cast<std::size_t>(end - from.data()));
    return error == std::errc() && number != 0;
}

}  // namespace

Numbers Numbers::of_this_build() {
    Numbers numbers;
    numbers.of[layout] = {BARCUDA_LAYOUT, BARCUDA_LAYOUT};
    numbers.of[packets] = {BARCUDA_PACKETS, BARCUDA_PACKETS};
    numbers.of[books] = {Ledger::form, Ledger::form};
    numbers.of[worker] = {KeptWorker::form_of_this_build, KeptWorker::form_of_this_build};
    numbers.of[link] = {BARCUDA_OLDEST_LINK, BARCUDA_LINK};
    numbers.of[keeper] = {keeping::form_of_messages, keeping::form_of_messages};
    return numbers;
}

std::string Numbers::words() const {
    std::string words;
    for (unsigned what = 0; what < count; ++what) {
        const auto [oldest, newest] = of[what];
        if (newest == 0) continue;
        words += fmt::format("{}{}{}", words.empty() ? "" : ".", rows[what].name, oldest);
        if (newest != oldest) words += fmt::format("-{}", newest);
    }
    return words;
}

std::optional<Numbers> Numbers::read(std::string_view words) {
    Numbers numbers;
    while (!words.empty()) {
        const std::size_t end = std::min(words.find('.'), words.size());
        std::string_view word = words.substr(0, end);
        words.remove_prefix(std::min(end + 1, words.size()));
        const std::size_t digit = std::min(word.find_first_of("0123456789"), word.size());
        const auto row = std::ranges::find(rows, word.substr(0, digit), &NumberName::name);
        if (row == std::end(rows)) return {};
        Range range;
        word.remove_prefix(digit);
        if (!read_number(word, range.oldest)) return {};
        range.newest = range.oldest;
        if (word.starts_with('-')) {
            word.remove_prefix(1);
            if (!read_number(word, range.newest)) return {};
        }
        if (!word.empty() || range.newest < range.oldest) return {};
        numbers.of[static_cast<std::size_t>(row - rows)] = range;
    }
    return numbers;
}

std::string Numbers::json() const {
    std::string all = fmt::format(R"({{"build": "{}")", BARCUDA_VERSION);
    for (unsigned what = 0; what < count; ++what)
        all +=
            fmt::format(R"(, "{}": {{"oldest": {}, "newest": {}}})", rows[what].name, of[what].oldest, of[what].newest);
    return all + "}";
}

std::vector<std::string> differences(const Numbers& its, const Numbers& ours) {
    std::vector<std::string> all;
    for (unsigned what = 0; what < Numbers::count; ++what) {
        const Numbers::Range in_use = its.of[what], known = ours.of[what];
        if (in_use.newest == 0 || known.newest == 0) continue;
        if (known.oldest <= in_use.oldest && in_use.newest <= known.newest) continue;
        all.push_back(fmt::format("{} has number {} in the running bridge, and {} in the new one", rows[what].text,
                                  text(in_use), text(known)));
    }
    return all;
}

int could_follow(std::string_view words) {
    const auto its = Numbers::read(words);
    const Numbers ours = Numbers::of_this_build();
    std::vector<std::string> all;
    if (its) all = differences(*its, ours);
    else all.push_back(fmt::format("the running bridge tells of numbers that this build does not know: {}", words));
    if (all.empty()) {
        fmt::print("{} ({})\n", BARCUDA_VERSION, ours.words());
        return keeping::could_follow;
    }
    for (const std::string& difference : all) fmt::print("{}\n", difference);
    return 1;
}

}  // namespace barcuda
