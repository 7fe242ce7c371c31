// SPDX-License-Identifier: Apache-2.0
// kept.h: the bridge's end of its link to the keeper (keeper/keeper.h). Without a keeper (in tests) nothing is kept,
// and workers are the bridge's own children.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/keeping.h"

namespace barcuda {

class Kept {
  public:
    Kept() = default;
    explicit Kept(File link) : link_(std::move(link)) {}
    explicit operator bool() const { return static_cast<bool>(link_); }

    // ---- descriptors by name
    // Returns an errno; 0: it is kept.
    int keep(const std::string& name, int file) const;
    void drop(const std::string& name) const;
    File take(const std::string& name) const;  // another descriptor of the same; -1: there is none
    std::vector<std::string> names(const std::string& prefix) const;
    void drop_all(const std::string& prefix) const;

    // ---- children: the keeper's, or this process's own
    // The child's status, as of waitpid(2). Nothing: it still runs, or a debugger keeps it.
    std::optional<int> look(pid_t child) const;
    std::optional<int> reap(pid_t child) const;
    // Waits until it has ended.
    int await(pid_t child) const;

    void ready() const;
    void done() const;
    void alive() const;

    // ---- a bridge of another file in this one's place (keeper/upgrade.h)
    struct Order {
        bool only_check = false;
        std::string words;               // Numbers::words of this bridge
        std::uint32_t milliseconds = 0;  // that check and start may take
    };
    struct Progress {
        keeping::Step step = keeping::Step::none;
        std::uint32_t attempt = 0;
        std::string text;  // what the file said, or why it was refused
    };
    // Returns an errno; 0: progress() says what comes of it.
    int upgrade(const Order& order, int file) const;
    Progress progress() const;

  private:
    struct Heard {
        keeping::Answer answer;
        File file;
    };
    Heard ask(const keeping::Request& request, int with = -1) const;

    File link_;
};

}  // namespace barcuda
