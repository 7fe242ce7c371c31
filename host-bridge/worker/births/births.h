// SPDX-License-Identifier: Apache-2.0
// births.h: from what the objects of a client were born: the commands that made what there is, that changed it, and
// that ended what something of it was made from, as the packets that they were, in their order. Executed in another
// process (replay.h), they make the same objects again. rules.h says what is kept of each row.
//
// A thing that a command makes has a life. A command is needed while something that it made or changed lives, or while
// a command is needed that uses it: a module while one of its functions is there, a graph that was destroyed while what
// was instantiated of it is there. The end of such a life is kept, too, in its place. Commands are appended, and looked
// through when there are twice as many bytes as after the last look: so a command costs no more than its copy.
//
// Launches, copies and waits are not recorded, except in a capture, where they are what a graph is made of.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "host-bridge/worker/births/code_store.h"
#include "host-bridge/worker/births/rules.h"

namespace barcuda {

struct Thing {
    enum class Sort : std::uint8_t {
        object,   // by its id
        memory,   // by its address: an allocation, a reservation, a variable
        mapping,  // the same: what is mapped into a reservation
        number    // textures and surfaces
    };
    Sort sort = Sort::object;
    std::uint64_t name = 0;
    auto operator<=>(const Thing&) const = default;
};
std::string text_of(const Thing& thing);

// One command.
struct Birth {
    Op op{};
    std::uint32_t context = 0;  // the id of the one that was current; 0: none
    std::vector<std::byte> body;
    CodeStore::Ref code;               // its image, which the packet names by null
    std::vector<std::uint64_t> names;  // ids that were given, in the order in which they were asked for
    struct Made {
        Thing thing;
        std::uint64_t bytes = 0;  // of memory
        bool operator==(const Made&) const = default;
    };
    std::vector<Made> made;
    std::uint64_t answer = 0;  // a hash of what the client was told; 0: it was told nothing
    // Of a load: of the code that the client had unloaded before, the driver had so much yet, the last.
    std::uint32_t unloaded = 0;
    bool operator==(const Birth&) const = default;
};

class Births {
  public:
    // More packets than this: the client cannot be carried, and nothing is recorded any more. PyTorch's training of a
    // model with 10,000 tensors and a hundred graphs has a tenth of it.
    static constexpr std::size_t most_bytes = 64 << 20;

    // From now on, if the client has done nothing yet. `lives`: the id is that of an object.
    // `unloaded`: how much code there is that the client has unloaded, and the driver has yet.
    void record(std::function<bool(std::uint64_t id)> lives, std::function<std::size_t()> unloaded, CodeStore& code,
                std::size_t most = most_bytes);
    bool on() const { return on_; }
    // Why nothing is recorded any more; null: it is.
    const char* lost() const { return lost_; }

    // ---- of the command that is being executed (witness.h)
    void begin(Op op, std::uint64_t context);
    void uses(const Thing& thing) {
        if (on_ && thing.name > 2) note_.uses.push_back(thing);  // (the default streams)
    }
    void uses_memory(std::uint64_t address);
    void makes(const Thing& thing, const Thing& whole = {});
    // `of_code`: it is the module's that the command names.
    void makes_memory(std::uint64_t address, bool of_code);
    void named(std::uint64_t id, std::uint64_t whole);
    void ends(const Thing& thing) {
        number_ended_ |= thing.sort == Thing::Sort::number;
        if (on_) note_.ends.push_back(thing);
    }
    // Whether a texture or a surface has ended: which numbers later ones get is the driver's business.
    bool number_ended() const { return number_ended_; }
    void joins(std::uint64_t id, std::uint64_t whole);
    void loads(std::string_view image);
    // Of the capture that the command is a part of, the driver's number; 0: none.
    void captured(std::uint64_t capture) {
        if (capture) note_.capture = capture;
    }
    // It has succeeded. `answer`: what the client is told.
    void commit(std::span<const std::byte> body, std::span<const std::byte> answer);

    // ---- captures
    bool captures() const { return !open_.empty(); }
    void capture_begun(std::uint64_t capture, std::uint64_t stream) { open_[capture] = stream; }
    void capture_ended(std::uint64_t capture) { open_.erase(capture); }
    void stream_gone(std::uint64_t id) {
        std::erase_if(open_, [id](const auto& capture) { return capture.second == id; });
    }
    // By capture, the id of the stream that it began in.
    const std::map<std::uint64_t, std::uint64_t>& open() const { return open_; }

    // ---- what there is
    std::vector<Birth> needed();  // in order
    // Commands of rows that cannot be carried, and that are needed.
    std::vector<Op> obstacles();
    std::vector<Birth::Made> memory();  // that is there, in the order of addresses
    std::size_t bytes() const { return bytes_; }
    std::size_t count() const { return commands_.size(); }

    // ---- while the commands of another worker are executed again: the ids that the next one gives
    void expect(std::span<const std::uint64_t> names) {
        expected_.assign(names.begin(), names.end());
        next_ = 0;
        replays_ = true;
    }
    bool replays() const { return replays_; }
    std::uint64_t expected() { return next_ < expected_.size() ? expected_[next_++] : 0; }
    const Birth* last() const { return commands_.empty() ? nullptr : &commands_.rbegin()->second.birth; }
    void replayed() { replays_ = false; }

  private:
    using Number = std::uint64_t;  // of a command, or of a life; 0: none
    struct Life {
        Thing thing;
        std::uint64_t bytes = 0;
        Number born = 0, ended = 0;  // commands
        Number whole = 0;            // with which it ends
        Number used = 0;             // the last command that made or captured something with it
        bool alone = true;           // no other command names it
    };
    struct Command {
        Birth birth;
        std::uint64_t capture = 0;
        std::vector<Number> uses, makes, changes, ends;  // lives
        bool changes_client = false;                     // and no object
        std::size_t bytes() const;
    };
    struct Note {
        Op op{};
        std::uint64_t context = 0, capture = 0;
        std::vector<Thing> uses, ends;
        std::vector<std::pair<Thing, Thing>> makes;  // and their wholes
        std::vector<std::pair<std::uint64_t, std::uint64_t>> joins;
        std::vector<std::uint64_t> names;
        CodeStore::Ref code;
    };
    // What is needed, and why: each life and each command once.
    struct Needs {
        std::set<Number> commands, lives;
    };

    Number life_of(const Thing& thing) const;
    Number memory_at(Thing::Sort sort, std::uint64_t address) const;
    std::vector<Number> mappings(std::uint64_t address, std::uint64_t bytes) const;
    bool lives(Number life) const;
    void note(std::span<const std::byte> body, std::span<const std::byte> answer);
    void change(Number number, Command& command, const Rule& rule);
    void come_behind_other_code(Command& command);
    void forget_released_code();
    bool forget(Number life);
    void replace(Number number, const Command& command, Number changed, std::uint8_t same);
    Needs look() const;
    void sweep();
    void give_up(const char* why);

    bool on_ = false, replays_ = false;
    bool number_ended_ = false;
    const char* lost_ = nullptr;
    std::function<bool(std::uint64_t)> lives_;
    std::function<std::size_t()> unloaded_;
    CodeStore* code_ = nullptr;
    std::size_t most_ = most_bytes;
    Note note_;
    Number numbers_ = 0;
    std::map<Number, Command> commands_;
    std::unordered_map<Number, Life> all_;
    std::map<Thing, Number> by_thing_;                      // the last life of this name
    std::map<std::pair<Number, std::string>, Number> set_;  // what was set, and of whom -> the command
    // Lives of modules and libraries, in their order: the ended ones are dropped late. And of those that the client has
    // unloaded, in the order of that, which the driver has yet.
    std::vector<Number> loads_, unloading_;
    std::map<std::uint64_t, std::uint64_t> open_;
    std::size_t bytes_ = 0, next_look_ = 0;
    std::vector<std::uint64_t> expected_;
    std::size_t next_ = 0;
};

}  // namespace barcuda
