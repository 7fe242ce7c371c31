// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "host-bridge/worker/quota/allowance.h"

namespace barcuda {

class Output::Text {
  public:
    Text(int pipe, Allowance& allowance) : pipe_(pipe), allowance_(allowance) {}

    void read_on() {
        for (pollfd readable{pipe_, POLLIN, 0};;) {
            if (poll(&readable, 1, -1) < 0) continue;
            if (readable.revents & (POLLERR | POLLNVAL)) return;
            const std::lock_guard lock(mutex_);
            read_what_is_there();
        }
    }
    std::size_t take(char* to, std::size_t room) {
        const std::lock_guard lock(mutex_);
        read_what_is_there();
        const std::size_t n = std::min(room, held());
        std::memcpy(to, text_.data() + taken_, n);
        taken_ += n;
        if (taken_ == text_.size()) {
            text_ = {};
            taken_ = 0;
        }
        allowance_.note(Limit::printf_text, held());
        return n;
    }

    std::string left() {
        const std::lock_guard lock(mutex_);
        read_what_is_there();
        return text_.substr(taken_);
    }
    void put(std::string_view text) {
        const std::lock_guard lock(mutex_);
        keep(text);
        allowance_.note(Limit::printf_text, held());
    }

  private:
    std::size_t held() const { return text_.size() - taken_; }
    // Reads what was written before the call, at most a pipe's size: a kernel may print endlessly.
    void read_what_is_there() {
        constexpr std::size_t in_a_pipe = 64 << 10;
        ssize_t n = 0;
        for (std::size_t all = 0; all < in_a_pipe && (n = read(pipe_, piece_, sizeof piece_)) > 0;) {
            all += static_cast<std::size_t>(n);
            keep({piece_, static_cast<std::size_t>(n)});
        }
        allowance_.note(Limit::printf_text, held());
    }
    void keep(std::string_view piece) {
        const std::uint64_t limit = allowance_.limit(Limit::printf_text);
        const std::size_t room = limit == 0 ? piece.size() : limit > held() ? limit - held() : 0;
        if (room < piece.size() && !std::exchange(told_, true))
            log::warn("a client's kernels print more than it may keep ({}); text is dropped",
                      about(Limit::printf_text).name());
        if (taken_ > piece.size() && taken_ > text_.size() / 2) {
            text_.erase(0, taken_);
            taken_ = 0;
        }
        try {
            text_.append(piece.substr(0, room));
        } catch (const std::bad_alloc&) {}  // the text is dropped
    }

    const int pipe_;
    Allowance& allowance_;
    std::mutex mutex_;
    std::string text_;
    std::size_t taken_ = 0;  // bytes of `text` that the client has collected
    char piece_[4096];
    bool told_ = false;
};

void Output::take_text_from(int pipe, Allowance& allowance) {
    text_ = std::make_shared<Text>(pipe, allowance);
    std::thread([text = text_] { text->read_on(); }).detach();
}

Output::State Output::state() const {
    if (!text_) return {};
    std::fflush(stdout);
    return {text_->left()};
}

void Output::restore(const State& state) {
    if (text_) text_->put(state.printed);
}

std::size_t Output::printed(char* text, std::size_t room) {
    if (!text_) return 0;
    std::fflush(stdout);
    return text_->take(text, room);
}

std::size_t Output::asserted(char* text, std::size_t room) {
    const ssize_t n = assert_failed_ ? read(pipe_, text, room) : 0;
    if (n < static_cast<ssize_t>(room)) assert_failed_ = false;  // that was all of it
    return n > 0 ? static_cast<std::size_t>(n) : 0;
}

void Output::pass_on() {
    char text[4096];
    if (assert_failed_ || pipe_ < 0) return;
    for (ssize_t n; (n = read(pipe_, text, sizeof text)) > 0;)
        if (write(log_, text, static_cast<std::size_t>(n)) < 0) return;  // the bridge makes it printable
}

}  // namespace barcuda
