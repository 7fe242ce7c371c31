// SPDX-License-Identifier: Apache-2.0
// ask.h: one question to a running bridge, and its answer, over the socket of limits_link.h. Each pair of Request and
// Reply has a form number, an error text, and rows, of which only `count` are sent.
#pragma once
#include <cstddef>
#include <iterator>
#include <string>

#include "base/message.h"

namespace barcuda {

// Connects to the bridge that serves a region, or to the bridge behind a door (a socket's path). Returns an error, or
// nothing.
std::string connect_to_region(const std::string& region, File& to);
std::string connect_to_door(const std::string& door, File& to);
// Sends a request and receives at most `most` bytes. Returns an error, or nothing.
std::string exchange(const File& to, const void* request, std::size_t bytes, void* reply, std::size_t most,
                     std::size_t& received);

template <class Request, class Reply> std::string ask(const File& to, const Request& request, Reply& reply) {
    std::size_t n = 0;
    if (std::string e = exchange(to, &request, sizeof request, &reply, sizeof reply, n); !e.empty()) return e;
    if (n < offsetof(Reply, rows) || reply.version != Request::form || reply.count > std::size(reply.rows) ||
        n != reply.bytes())
        return "its bridge is of another version";
    reply.error[sizeof reply.error - 1] = 0;
    return reply.error;
}

// Receives the bridge's answer. Returns an error, or nothing.
template <class Request, class Reply>
std::string ask_region(const std::string& region, const Request& request, Reply& reply) {
    File to;
    if (std::string e = connect_to_region(region, to); !e.empty()) return e;
    std::string e = ask(to, request, reply);
    return e.empty() || e == reply.error ? e : region + ": " + e;
}

}  // namespace barcuda
