// SPDX-License-Identifier: Apache-2.0
// residency_bench.cc: guests on one card, by a simulated clock (residency_world.h): the same guests with static shares,
// first come first served, and the policy of host-bridge/between/residency.h. Prints a line of JSON for each way.
// tests/bench/residency makes tables and a plot of them.
//
//   residency_bench --pattern poisson|bursty|mixed [--guests N] [--minutes N] [--size GIB] [--speed GBPS]
//                   [--wait S] [--seed N]
//   residency_bench --trace FILE ...   a recorded pattern: a line "guest seconds work gib" for each burst, in order of
//                                      time: whose it is, when it begins, its seconds of the whole card, and what
//                                      memory the guest has
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "tests/bench/residency_world.h"

namespace {

using namespace barcuda::residency;

constexpr Bytes GiB = 1ull << 30;
constexpr Time begin = 1000 * second;

struct Options {
    std::string pattern = "poisson", trace;
    unsigned guests = 50, minutes = 60, size = 80, wait = 60, seed = 1;
    double speed = 55;
};

struct Random {
    std::mt19937_64 engine;
    double uniform() { return (static_cast<double>(engine() >> 11) + 0.5) / 9007199254740992.0; }
    Time exponential(double seconds) { return static_cast<Time>(-std::log(uniform()) * seconds * second); }
    Time pareto(double least_seconds) {  // a mean of three times the least
        return static_cast<Time>(least_seconds / std::pow(uniform(), 1 / 1.5) * second);
    }
};

// A burst of about a second each minute.
Pattern poisson(std::uint64_t seed) {
    return [random = Random{std::mt19937_64(seed)}](Time now) mutable {
        return Burst{now + random.exponential(60), 10 * ms + random.exponential(0.8)};
    };
}
// Ten bursts with short pauses, then a long pause.
Pattern bursty(std::uint64_t seed) {
    return [random = Random{std::mt19937_64(seed)}](Time now) mutable {
        const bool more = random.uniform() > 0.1;
        return Burst{now + (more ? random.exponential(0.5) : random.pareto(200)), 10 * ms + random.exponential(0.8)};
    };
}
Pattern training() {
    return [](Time now) { return Burst{now + 20 * ms, 10 * second}; };
}

std::vector<Guest> guests(const Options& options) {
    Random random{std::mt19937_64(options.seed)};
    std::vector<Guest> all(options.guests);
    for (std::size_t i = 0; i < all.size(); ++i) {
        Guest& guest = all[i];
        // Many small ones, and some large ones: 7 GiB in the mean.
        constexpr Bytes sizes[] = {1, 2, 2, 4, 4, 4, 8, 8, 16, 20};
        guest.memory = sizes[random.engine() % std::size(sizes)] * GiB;
        const std::uint64_t seed = random.engine();
        guest.next = options.pattern == "bursty" ? bursty(seed) : poisson(seed);
        if (options.pattern == "mixed" && i < 2) {
            guest.memory = 24 * GiB;
            guest.next = training();
        }
        // Sessions of half an hour, and some minutes without memory between them.
        auto own = std::make_shared<Random>(Random{std::mt19937_64(random.engine())});
        guest.session_ends = begin + own->exponential(1800);
        guest.next_session = [own](Time now) { return now + own->exponential(1800); };
    }
    return all;
}

std::vector<Guest> recorded(const std::string& path) {
    struct Recorded {
        Bytes memory = 0;
        std::vector<Burst> bursts;
    };
    std::map<std::string, Recorded> by_name;
    std::ifstream file(path);
    std::string name;
    double at, work, gib;
    while (file >> name >> at >> work >> gib) {
        Recorded& one = by_name[name];
        one.memory = std::max(one.memory, static_cast<Bytes>(gib * static_cast<double>(GiB)));
        one.bursts.push_back(
            {begin + static_cast<Time>(at * second), std::max<Time>(static_cast<Time>(work * second), 1)});
    }
    if (by_name.empty() || !file.eof()) {
        fmt::print(stderr, "{}: no lines of \"guest seconds work gib\", or one that is none\n", path);
        std::exit(2);
    }
    std::vector<Guest> all;
    for (auto& [_, one] : by_name) {
        Guest& guest = all.emplace_back();
        guest.memory = one.memory;
        guest.next = [bursts = std::move(one.bursts), at = std::size_t{0}](Time) mutable -> std::optional<Burst> {
            if (at == bursts.size()) return {};
            return bursts[at++];
        };
    }
    return all;
}

bool read(int argc, char** argv, Options& options) {
    const std::map<std::string, unsigned*> numbers{{"--guests", &options.guests},
                                                   {"--minutes", &options.minutes},
                                                   {"--size", &options.size},
                                                   {"--wait", &options.wait},
                                                   {"--seed", &options.seed}};
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--pattern") options.pattern = argv[i + 1];
        else if (name == "--trace") options.trace = argv[i + 1];
        else if (name == "--speed") options.speed = std::atof(argv[i + 1]);
        else if (const auto number = numbers.find(name); number != numbers.end())
            *number->second = static_cast<unsigned>(std::atoi(argv[i + 1]));
        else return false;
    }
    const bool known = options.pattern == "poisson" || options.pattern == "bursty" || options.pattern == "mixed";
    return argc % 2 == 1 && known && options.guests && options.minutes && options.size && options.speed > 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!read(argc, argv, options)) {
        fmt::print(stderr,
                   "usage: residency_bench [--pattern poisson|bursty|mixed | --trace FILE] [--guests N] [--minutes N] "
                   "[--size GIB] [--speed GBPS] [--wait SECONDS] [--seed N]\n");
        return 2;
    }
    const Card card{.size = options.size * GiB,
                    .reserve = 768ull << 20,
                    .strangers = 0,
                    .used = 0,
                    .speed = static_cast<Bytes>(options.speed * 1e9)};
    Rules rules;
    rules.wait = options.wait * second;
    constexpr std::pair<World::Way, const char*> ways[] = {{World::Way::shares, "static shares"},
                                                           {World::Way::first_come, "first come"},
                                                           {World::Way::residency, "residency"}};
    for (const auto& [way, name] : ways) {
        std::vector<Guest> all = options.trace.empty() ? guests(options) : recorded(options.trace);
        Bytes memory = 0;
        for (const Guest& guest : all) memory += guest.memory;
        const std::size_t count = all.size();
        World world(way, card, rules, std::move(all));
        world.run(begin + options.minutes * 60 * second);
        Figures& figures = world.figures();
        const auto seconds = [](Time t) { return static_cast<double>(t) / second; };
        fmt::print(
            "{{\"pattern\": \"{}\", \"way\": \"{}\", \"guests\": {}, \"memory_GiB\": {:.0f}, \"card_GiB\": {}, "
            "\"done\": {}, \"refused\": {}, \"used\": {:.4f}, \"wait_p50_s\": {:.2f}, \"wait_p99_s\": {:.2f}, "
            "\"wait_most_s\": {:.2f}, \"moved_GiB\": {:.0f}, \"changes\": {}}}\n",
            options.trace.empty() ? options.pattern : "recorded", name, count,
            static_cast<double>(memory) / static_cast<double>(GiB), options.size, figures.done, figures.refused,
            seconds(figures.worked) / seconds(figures.elapsed - begin), seconds(figures.wait(0.5)),
            seconds(figures.wait(0.99)), seconds(figures.wait(1)),
            static_cast<double>(figures.moved) / static_cast<double>(GiB), figures.changes);
    }
}
