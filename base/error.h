// SPDX-License-Identifier: Apache-2.0
// error.h: what went wrong with a region, for a program (kind) and for a person (text). It allocates nothing: it is
// made inside malloc of unknown programs.
#pragma once
#include <cstdint>

namespace barcuda {

// What went wrong, if anything did. `text` is one or two sentences for a person: what, where, and what to do.
struct Error {
    enum Kind : std::uint8_t {
        none,
        not_found,      // no region, or no such file
        permission,     // not a member of the group
        foreign,        // another user could change it
        not_a_region,   // something else is at that path
        not_ready,      // a region that no bridge has announced yet, or that its bridge has left
        other_layout,   // layout.h has changed in between
        other_packets,  // how values lie in a command has changed in between
        other_rows,     // the bridge lacks a command without which no program could run
        bad_size,       // too small, too large, no power of two, or not what the file has
        bad_base,       // an address that no process could map
        malformed,      // a header that contradicts itself
        address_taken,  // another mapping is where an extent belongs
        no_channel,     // every slot is in use
        no_device,      // the program asked for none, or for one that does not exist; without a text: on purpose
        bad_range,      // not an extent: unaligned or outside
        in_use,         // another bridge serves this region
        exists,         // a file that is no region would be overwritten
        lost,           // the program has closed or reused our file descriptor
        system,         // a system call failed: `code`
    };
    Kind kind = none;
    int code = 0;  // errno, where a system call failed
    char text[500] = "";

    explicit operator bool() const { return kind != none; }
};

// An error with a printf-made sentence; `code` is an errno or 0 (its text is appended where it is not 0).
[[gnu::format(printf, 3, 4)]] Error error(Error::Kind kind, int code, const char* format, ...);

}  // namespace barcuda
