// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os/thread.h"

namespace barcuda {
namespace {

constexpr const char* name_of(MoveWord word) {
    switch (word) {
        case MoveWord::alive: return "alive";
        case MoveWord::offer: return "offer";
        case MoveWord::go: return "go";
        case MoveWord::drop: return "drop";
        case MoveWord::early: return "early";
        case MoveWord::early_end: return "early_end";
        case MoveWord::part: return "part";
        case MoveWord::bytes: return "bytes";
        case MoveWord::again: return "again";
        case MoveWord::part_end: return "part_end";
        case MoveWord::description: return "description";
        case MoveWord::welcome: return "welcome";
        case MoveWord::have: return "have";
        case MoveWord::awake: return "awake";
        case MoveWord::dropped: return "dropped";
        case MoveWord::failed: return "failed";
    }
    return "unknown";
}

constexpr const char *head_of_orders = "barcuda move", *with_guest = "guest", *without_guest = "no guest";

// Waits until the descriptor can be used. False: it took longer.
bool ready(int fd, short events, std::chrono::milliseconds within) {
    pollfd p{fd, events, 0};
    int n = 0;
    do n = poll(&p, 1, static_cast<int>(within.count()));
    while (n < 0 && errno == EINTR);
    return n != 0;
}

}  // namespace

std::string MoveOrder::text() const {
    return fmt::format("{} {}\n{}\n{}\n{}\n{}\n{}\n", head_of_orders, right_number, id, name, region, source,
                       guest ? with_guest : without_guest);
}

Failure MoveOrder::parse(std::string_view text, MoveOrder& order) {
    std::vector<std::string> lines;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
        lines.emplace_back(text.substr(0, end));
    const std::string right = fmt::format("{} {}", head_of_orders, right_number);
    if (lines.empty() || !lines[0].starts_with(head_of_orders)) return "this is not the stream of `barcuda move`";
    if (lines[0] != right)
        return fmt::format(
            "the other side's stream begins with '{}', this build's with '{}': use builds with the same number",
            lines[0].substr(0, 40), right);
    constexpr std::size_t id_length = 32;
    if (lines.size() != 6 || lines[1].size() != id_length ||
        lines[1].find_first_not_of("0123456789abcdef") != std::string::npos ||
        (lines[5] != with_guest && lines[5] != without_guest))
        return "the other side's order is damaged";
    order = {lines[1], lines[2], lines[3], lines[4], lines[5] == with_guest};
    return {};
}

Stream::~Stream() {
    stop_ = true;
    if (beats_.joinable()) beats_.join();
}

void Stream::beat() {
    const os::SignalsBlocked blocked;
    beats_ = std::thread([this] {
        constexpr std::chrono::milliseconds between_looks{20};
        constexpr unsigned looks_a_second = 50;
        for (unsigned turns = 1; !stop_; ++turns) {
            if (turns % looks_a_second == 0) (void)send(MoveWord::alive);
            poll(nullptr, 0, static_cast<int>(between_looks.count()));
        }
    });
}

Failure Stream::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (!ready(out_.fd(), POLLOUT, stall)) return "the other side takes nothing more";
        const ssize_t n = ::write(out_.fd(), bytes.data(), bytes.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) return fmt::format("the connection is cut: {}", strerror(errno));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

Failure Stream::send(MoveWord word, std::span<const std::byte> bytes, std::uint32_t part) {
    const std::lock_guard lock(one_sends_);
    do {
        const auto piece = bytes.first(std::min(bytes.size(), most_bytes));
        bytes = bytes.subspan(piece.size());
        const Head head{word, part, static_cast<std::uint32_t>(piece.size())};
        if (broken_) return "the connection is cut";
        Failure failure = write(std::as_bytes(std::span(&head, 1)));
        if (!failure) failure = write(piece);
        broken_ = static_cast<bool>(failure);
        if (failure) return failure;
    } while (!bytes.empty());
    return {};
}

Failure Stream::send(MoveWord word, std::string_view text, std::uint32_t part) {
    return send(word, std::as_bytes(std::span(text)), part);
}

Failure Stream::read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        if (!ready(in_.fd(), POLLIN, silence)) return "the other side says nothing any more";
        const ssize_t n = ::read(in_.fd(), bytes.data(), bytes.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) return fmt::format("the connection is cut: {}", strerror(errno));
        if (n == 0) return "the connection has ended";
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

Failure Stream::receive(Message& message) {
    do {
        Head head;
        if (Failure failure = read(std::as_writable_bytes(std::span(&head, 1)))) return failure;
        if (head.word > MoveWord::failed || head.bytes > most_bytes)
            return "the other side does not speak as `barcuda move` does";
        message.word = head.word;
        message.part = head.part;
        message.bytes.resize(head.bytes);
        if (Failure failure = read(message.bytes)) return failure;
    } while (message.word == MoveWord::alive);
    refused_ = message.word == MoveWord::failed;
    return refused_ ? Failure(message.text()) : Failure();
}

Failure Stream::expect(MoveWord word, Message& message) {
    if (Failure failure = receive(message)) return failure;
    if (message.word == word) return {};
    return fmt::format("the other side says '{}' where '{}' is right", name_of(message.word), name_of(word));
}

Failure Stream::expect(MoveWord word) {
    Message message;
    return expect(word, message);
}

}  // namespace barcuda
