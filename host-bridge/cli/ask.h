// SPDX-License-Identifier: Apache-2.0
// ask.h: one question to a running bridge, and its answer, over the socket of limits_link.h. Each pair of Request and
// Reply has a form number, an error text, and rows, of which only `count` are sent.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda {

// Connects to the bridge that serves a region, or to the bridge behind a door (a socket's path).
Failure connect_to_region(const std::string& region, File& to);
Failure connect_to_door(const std::string& door, File& to);
// The same for the bridge that has come in the place of the one behind that door: the door of this user's with the same
// region.
Failure connect_to_doors_of(const std::string& door, uid_t user, File& to);
// Sends a request and receives at most `most` bytes, with the descriptors that come with them.
Failure exchange(const File& to, const void* request, std::size_t bytes, void* reply, std::size_t most,
                 std::size_t& received, std::vector<File>& files);

template <class Request, class Reply>
Failure ask(const File& to, const Request& request, Reply& reply, std::vector<File>& files) {
    std::size_t n = 0;
    if (Failure e = exchange(to, &request, sizeof request, &reply, sizeof reply, n, files)) return e;
    if (n < offsetof(Reply, rows) || reply.version != Request::form || reply.count > std::size(reply.rows) ||
        n != reply.bytes())
        return "its bridge is of another version";
    reply.error[sizeof reply.error - 1] = 0;
    return reply.error;
}

template <class Request, class Reply> Failure ask(const File& to, const Request& request, Reply& reply) {
    std::vector<File> none;
    return ask(to, request, reply, none);
}

// Receives the bridge's answer.
template <class Request, class Reply>
Failure ask_region(const std::string& region, const Request& request, Reply& reply) {
    File to;
    if (Failure e = connect_to_region(region, to)) return e;
    Failure e = ask(to, request, reply);
    return !e || e.text() == reply.error ? e : Failure(region + ": " + e.text());
}

}  // namespace barcuda
