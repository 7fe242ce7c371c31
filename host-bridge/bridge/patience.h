// SPDX-License-Identifier: Apache-2.0
// patience.h: for how long the bridge's loop sleeps at most. How soon the bridge notices a new client, and the cost of
// looking: some loads and a system call each time. After any event (a worker's request or end, the doorbell, a program
// that opens or closes the region's file) the bridge looks often for some time, because more may follow. After that,
// the loop of a bridge that hears of every client wakes only for the heartbeat; a bridge for a plain VM must keep
// looking.
#pragma once
#include <chrono>

namespace barcuda::patience {

using std::chrono::milliseconds;

constexpr milliseconds new_look_every{1}, look_every{2}, deaf_look_every{8}, idle_look_every{250};
constexpr milliseconds looks_for_new{50}, looks_often{1000};  // after anything has happened

// `quiet`: the time since anything has happened. `busy`: a part of the bridge waits for a worker or a tool.
// `hears_of_clients`: an event tells the bridge of each new client.
constexpr milliseconds between_looks(std::chrono::nanoseconds quiet, bool busy, bool hears_of_clients) {
    if (quiet < looks_for_new) return new_look_every;
    if (busy || quiet < looks_often) return look_every;
    return hears_of_clients ? idle_look_every : deaf_look_every;
}

}  // namespace barcuda::patience
