// SPDX-License-Identifier: Apache-2.0
// numbers.h: the numbers that decide whether a bridge of one build can go on with the clients of a bridge of another
// (`barcuda upgrade`; docs/versions.md). Each is a range: of a build, what it understands; of a running bridge, what is
// in use. A build can go on if each of its ranges contains the running bridge's.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace barcuda {

struct Numbers {
    enum What : unsigned {
        layout,   // of the region (shm-device/layout.h)
        packets,  // how values lie in commands (shm-device/layout.h)
        books,    // form of the books (ledger.h)
        worker,   // form of a worker's record (worker_process.h)
        link,     // link and sheet of a worker (between/link.h)
        keeper,   // messages of the keeper (between/keeping.h)
        count
    };
    struct Range {
        std::uint32_t oldest = 0, newest = 0;  // 0: not told
    };
    std::array<Range, count> of{};

    static Numbers of_this_build();

    // "layout7.packets1.books1.worker1.link2-3.keeper1": the form in which a running bridge tells a file its numbers.
    std::string words() const;
    // Nothing: a word has a name that this build does not know, or no number.
    static std::optional<Numbers> read(std::string_view words);
    std::string json() const;  // with the build's name
};

// What keeps a build with the numbers `ours` from going on with the clients of a bridge with the numbers `its`: a
// sentence each, with both numbers. What is not told on one side is not compared.
std::vector<std::string> differences(const Numbers& its, const Numbers& ours);

// The answer of `barcuda-bridge --could-follow WORDS`, on standard output, and its exit status.
int could_follow(std::string_view words);

}  // namespace barcuda
