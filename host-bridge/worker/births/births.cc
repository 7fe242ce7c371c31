// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/births/births.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/content_hash.h"

namespace barcuda {
namespace {

using Sort = Thing::Sort;

std::uint64_t word_of(std::span<const std::byte> packet, std::size_t word) {
    std::uint64_t value = 0;
    if (word < packet.size() / sizeof value) std::memcpy(&value, packet.data() + word * sizeof value, sizeof value);
    return value;
}
void set_word(std::vector<std::byte>& packet, std::size_t word, std::uint64_t value) {
    if (word < packet.size() / sizeof value) std::memcpy(packet.data() + word * sizeof value, &value, sizeof value);
}

// Of the memory that the command has made.
std::uint64_t bytes_made(Op op, std::span<const std::byte> body, std::span<const std::byte> answer) {
    switch (op) {
        case Op::cuMemAlloc_v2:
        case Op::cuMemAddressReserve: return word_of(body, 0);
        case Op::cuMemMap: return word_of(body, 1);
        case Op::cuMemAllocPitch_v2: return word_of(answer, 1) * word_of(body, 1);  // the pitch, and the rows
        default: return word_of(answer, 1);                                         // a variable
    }
}

// What of a packet is true of this moment only: an image's place in the region, the fence that the client waited for,
// addresses that the driver was to choose.
void settle(Birth& birth) {
    switch (birth.op) {
        case Op::load_module:
        case Op::load_library: return set_word(birth.body, 1, 0);
        case Op::link_add: return set_word(birth.body, 2, 0);
        case Op::cuMemAddressReserve:
            if (!birth.made.empty()) set_word(birth.body, 2, birth.made.front().thing.name);
            return;
        case Op::record_event:
        case Op::write_fence:  // its last two words
            set_word(birth.body, birth.body.size() / 8 - 2, 0);
            return set_word(birth.body, birth.body.size() / 8 - 1, 0);
        default: return;
    }
}
constexpr bool loads_code(Op op) { return op == Op::load_module || op == Op::load_library || op == Op::link_add; }
constexpr bool makes_code(Op op) { return op == Op::load_module || op == Op::load_library; }
constexpr bool ends_code(Op op) { return op == Op::cuModuleUnload || op == Op::cuLibraryUnload; }

void add_once(std::vector<std::uint64_t>& all, std::uint64_t one) {
    if (one != 0 && std::ranges::find(all, one) == all.end()) all.push_back(one);
}

}  // namespace

std::string text_of(const Thing& thing) {
    switch (thing.sort) {
        case Sort::object: return fmt::format("object {:#x}", thing.name);
        case Sort::memory: return fmt::format("memory at {:#x}", thing.name);
        case Sort::mapping: return fmt::format("a mapping at {:#x}", thing.name);
        default: return fmt::format("texture or surface {}", thing.name);
    }
}

void Births::record(std::function<bool(std::uint64_t)> lives, std::function<std::size_t()> unloaded, CodeStore& code,
                    std::size_t most) {
    lives_ = std::move(lives);
    unloaded_ = std::move(unloaded);
    code_ = &code;
    most_ = most;
    on_ = true;
}

void Births::give_up(const char* why) {
    commands_.clear();
    all_.clear();
    by_thing_.clear();
    set_.clear();
    loads_.clear();
    unloading_.clear();
    open_.clear();
    note_ = {};
    bytes_ = next_look_ = 0;
    on_ = false;
    lost_ = why;
}

// ---- of the running command

void Births::begin(Op op, std::uint64_t context) {
    if (!on_) return;
    note_.op = op;
    note_.context = context;
    note_.capture = 0;
    note_.uses.clear();
    note_.ends.clear();
    note_.makes.clear();
    note_.joins.clear();
    note_.names.clear();
    note_.code.reset();
}
void Births::makes(const Thing& thing, const Thing& whole) {
    if (on_) note_.makes.emplace_back(thing, whole);
}
void Births::makes_memory(std::uint64_t address, bool of_code) {
    if (on_) makes({Sort::memory, address}, of_code && !note_.uses.empty() ? note_.uses.front() : Thing());
}
void Births::named(std::uint64_t id, std::uint64_t whole) {
    if (!on_) return;
    note_.names.push_back(id);
    const Number known = life_of({Sort::object, id});
    if (id != 0 && (known == 0 || all_.at(known).ended != 0)) makes({Sort::object, id}, {Sort::object, whole});
}
void Births::joins(std::uint64_t id, std::uint64_t whole) {
    if (on_) note_.joins.emplace_back(id, whole);
}
void Births::uses_memory(std::uint64_t address) {
    if (!on_) return;
    for (const Sort sort : {Sort::memory, Sort::mapping})
        if (const Number life = memory_at(sort, address)) note_.uses.push_back(all_.at(life).thing);
}
void Births::loads(std::string_view image) {
    if (on_) note_.code = code_->keep(std::as_bytes(std::span(image)));
}

// ---- lives

Births::Number Births::life_of(const Thing& thing) const {
    const auto its = by_thing_.find(thing);
    return its == by_thing_.end() ? 0 : its->second;
}
Births::Number Births::memory_at(Sort sort, std::uint64_t address) const {
    const auto behind = by_thing_.upper_bound({sort, address});
    if (behind == by_thing_.begin()) return 0;
    const auto& [thing, number] = *std::prev(behind);
    const Life& life = all_.at(number);
    return thing.sort == sort && (address == thing.name || address - thing.name < life.bytes) ? number : 0;
}
std::vector<Births::Number> Births::mappings(std::uint64_t address, std::uint64_t bytes) const {
    std::vector<Number> all;
    for (auto its = by_thing_.lower_bound({Sort::mapping, address});
         its != by_thing_.end() && its->first.sort == Sort::mapping && its->first.name - address < bytes; ++its)
        all.push_back(its->second);
    return all;
}
bool Births::lives(Number number) const {
    const auto its = all_.find(number);
    if (its == all_.end()) return false;
    const Life& life = its->second;
    if (life.ended != 0 || life_of(life.thing) != number) return false;
    if (life.thing.sort == Sort::object && !lives_(life.thing.name)) return false;
    return life.whole == 0 || lives(life.whole);
}

// ---- a command

std::size_t Births::Command::bytes() const {
    return sizeof(Command) + birth.body.size() + birth.names.size() * sizeof(std::uint64_t) +
           birth.made.size() * (sizeof(Birth::Made) + sizeof(Life)) +
           (uses.size() + makes.size() + changes.size() + ends.size()) * sizeof(Number);
}

void Births::commit(std::span<const std::byte> body, std::span<const std::byte> answer) {
    if (!on_) return;
    try {
        note(body, answer);
    } catch (const std::bad_alloc&) {  // the command has succeeded, whatever becomes of this
        give_up("its worker had no memory to record the commands that made its objects");
    }
}

void Births::note(std::span<const std::byte> body, std::span<const std::byte> answer) {
    const Op op = note_.op;
    const Rule& rule = rule_of(op);
    if (!rule.recorded() && note_.capture == 0) return;
    if (loads_code(op) && !note_.code)
        return give_up(
            "its code is not recorded: it has more than 2 GiB, or the host does not let workers have the same "
            "addresses "
            "each time (personality, ADDR_NO_RANDOMIZE)");

    if (op == Op::cuMemMap) makes({Sort::mapping, word_of(body, 0)});
    // What there is of this already is not made again.
    std::erase_if(note_.makes, [&](const auto& each) { return lives(life_of(each.first)); });
    if (rule.carry == Carry::made && note_.makes.empty() && note_.capture == 0) return;
    // A graph that does not fit: the last word of the answer says so, and what was instantiated is as before.
    const auto verdict =
        op == Op::exec_update ? static_cast<CUresult>(word_of(answer, answer.size() / 8 - 1)) : CUDA_SUCCESS;
    if (verdict != CUDA_SUCCESS && note_.makes.empty()) return;

    const Number number = numbers_ + 1;
    Command command;
    command.capture = note_.capture;
    Birth& birth = command.birth;
    birth.op = op;
    birth.context = static_cast<std::uint32_t>(note_.context);
    birth.body.assign(body.begin(), body.end());
    birth.code = std::move(note_.code);
    birth.names = note_.names;
    // The driver counts captures. And what it says of a function may depend on whether its code has been needed yet.
    const bool has_facts = op == Op::find_function || op == Op::function_of_kernel;
    if (!answer.empty() && op != Op::capture_info && !has_facts) birth.answer = content_hash(answer);

    for (const Thing& thing : note_.uses) add_once(command.uses, life_of(thing));
    const Number context = life_of({Sort::object, note_.context});
    if (op == Op::cuMemMap) add_once(command.uses, memory_at(Sort::memory, word_of(body, 0)));
    if (op == Op::cuMemSetAccess)
        for (const Number mapping : mappings(word_of(body, 0), word_of(body, 1))) add_once(command.uses, mapping);
    if (op == Op::cuMemUnmap) command.ends = mappings(word_of(body, 0), word_of(body, 1));
    else
        for (const Thing& thing : note_.ends) add_once(command.ends, life_of(thing));
    if (rule.carry == Carry::ends && command.ends.empty()) return;  // of nothing that was recorded

    if (ends_code(op) && unloaded_() != 0) unloading_.push_back(command.ends.front());
    else if (rule.carry == Carry::ends && command.ends.size() == 1 && note_.capture == 0 &&
             forget(command.ends.front()))
        return;

    numbers_ = number;
    for (const auto& [thing, whole] : note_.makes) {
        Life life{.thing = thing, .born = number, .ended = 0, .whole = life_of(whole)};
        if (thing.sort == Sort::memory || thing.sort == Sort::mapping) life.bytes = bytes_made(op, body, answer);
        if (thing.sort != Sort::object && life.whole == 0 && !has(op, trait::anywhere)) life.whole = context;
        const Number fresh = ++numbers_;
        all_[fresh] = life;
        by_thing_[thing] = fresh;
        command.makes.push_back(fresh);
        birth.made.push_back({thing, life.bytes});
    }
    for (const auto& [id, whole] : note_.joins)
        if (const Number life = life_of({Sort::object, id})) all_.at(life).whole = life_of({Sort::object, whole});
    change(number, command, rule);
    if (!has(op, trait::anywhere)) add_once(command.uses, context);
    for (const Number used : command.uses) all_.at(used).alone = false;
    if (!command.makes.empty() || command.capture != 0)
        for (Number used : command.uses)
            for (; used != 0; used = all_.at(used).whole) all_.at(used).used = number;
    if (makes_code(op) && !command.makes.empty()) come_behind_other_code(command);
    for (const Number life : command.ends) {
        Life& ended = all_.at(life);
        ended.ended = number;
        if (ended.thing.sort != Sort::object && life_of(ended.thing) == life) by_thing_.erase(ended.thing);
    }
    settle(birth);
    bytes_ += command.bytes();
    commands_.emplace(number, std::move(command));
    if (bytes_ > next_look_) sweep();
}

// Variables lie where those of the code that is there already leave room. So code comes again behind the code behind
// which it came, also when that is gone by then; and before that is gone, if it was.
void Births::come_behind_other_code(Command& command) {
    while (!loads_.empty() && !lives(loads_.back())) loads_.pop_back();
    forget_released_code();
    command.birth.unloaded = static_cast<std::uint32_t>(unloading_.size());
    std::vector<Number> others = unloading_;
    if (!loads_.empty()) others.push_back(loads_.back());
    for (const Number other : others) {
        add_once(command.uses, other);
        all_.at(other).alone = false;
    }
    loads_.push_back(command.makes.front());
}

// The driver releases in the order of the commands.
void Births::forget_released_code() {
    const std::size_t there = std::min(unloaded_(), unloading_.size());
    unloading_.erase(unloading_.begin(), unloading_.end() - static_cast<std::ptrdiff_t>(there));
}

// What was made and ended, and nothing else, was never there: memory that a program allocates and frees in a loop.
bool Births::forget(Number life) {
    const auto its = all_.find(life);
    const auto born = commands_.find(its->second.born);
    if (!its->second.alone || born == commands_.end() || born->second.makes.size() != 1 || born->second.capture != 0)
        return false;
    if (!born->second.changes.empty()) return false;  // a node, in a graph that may have been used with it
    bytes_ -= born->second.bytes();
    by_thing_.erase(its->second.thing);
    commands_.erase(born);
    all_.erase(its);
    return true;
}

// What the command changes: the first object that it names, or what it maps; else its context, or the client. A change
// of a part changes the whole.
void Births::change(Number number, Command& command, const Rule& rule) {
    const Op op = command.birth.op;
    const bool makes = rule.carry == Carry::made;
    if (!changes_an_object(op) || op == Op::cuMemMap || rule.carry == Carry::nothing || rule.carry == Carry::ends)
        return;
    std::vector<Number> changed;
    if (op == Op::cuStreamEndCapture) {
        if (!note_.names.empty()) changed.push_back(life_of({Sort::object, note_.names.front()}));
    } else if (op == Op::cuMemSetAccess) {
        changed = command.uses;
    } else if (!command.uses.empty()) {
        changed.push_back(command.uses.front());
    } else if (!has(op, trait::anywhere)) {
        changed.push_back(life_of({Sort::object, note_.context}));
    }
    const Number first = changed.empty() ? 0 : changed.front();
    for (Number life : changed)
        for (; life != 0; life = all_.at(life).whole) add_once(command.changes, life);
    command.changes_client = command.changes.empty() && !makes;
    if (rule.carry == Carry::sets && first != 0 && command.makes.empty()) replace(number, command, first, rule.same);
}

void Births::replace(Number number, const Command& command, Number changed, std::uint8_t same) {
    std::string what(reinterpret_cast<const char*>(&command.birth.op), sizeof(Op));
    for (std::size_t word = 0; word < 8; ++word)
        if (same >> word & 1) {
            const std::uint64_t value = word_of(command.birth.body, word);
            what.append(reinterpret_cast<const char*>(&value), sizeof value);
        }
    Number& place = set_[{changed, std::move(what)}];
    const auto before = commands_.find(std::exchange(place, number));
    if (before == commands_.end()) return;
    // What was made of it meanwhile was made of it as it was.
    for (Number life = changed; life != 0; life = all_.at(life).whole)
        if (all_.at(life).used > before->first) return;
    bytes_ -= before->second.bytes();
    commands_.erase(before);
}

// ---- what is needed

Births::Needs Births::look() const {
    std::unordered_map<Number, std::vector<Number>> changes;
    std::map<std::uint64_t, std::vector<Number>> captured;
    for (const auto& [number, command] : commands_) {
        for (const Number life : command.changes) changes[life].push_back(number);
        if (command.capture != 0) captured[command.capture].push_back(number);
    }
    Needs needs;
    std::vector<Number> to_do;  // lives and commands
    const auto need = [&](Number one) {
        if (one == 0) return;
        auto& seen = all_.contains(one) ? needs.lives : needs.commands;
        if (seen.insert(one).second) to_do.push_back(one);
    };
    for (const auto& [life, its] : all_)
        if (lives(life)) need(life);
    for (const Number life : unloading_) need(life);  // the next load may use it
    for (const auto& [number, command] : commands_)
        if (command.changes_client || open_.contains(command.capture)) need(number);
    while (!to_do.empty()) {
        const Number one = to_do.back();
        to_do.pop_back();
        if (const auto its = all_.find(one); its != all_.end()) {
            for (const Number other : {its->second.born, its->second.ended, its->second.whole}) need(other);
            if (const auto by = changes.find(one); by != changes.end())
                for (const Number command : by->second) need(command);
        } else if (const auto command = commands_.find(one); command != commands_.end()) {
            for (const auto* all : {&command->second.uses, &command->second.makes, &command->second.ends})
                for (const Number life : *all) need(life);
            if (command->second.capture != 0)
                for (const Number other : captured[command->second.capture]) need(other);
        }
    }
    return needs;
}

void Births::sweep() {
    forget_released_code();
    const Needs needs = look();
    std::erase_if(commands_, [&](const auto& each) { return !needs.commands.contains(each.first); });
    std::erase_if(all_, [&](const auto& each) { return !needs.lives.contains(each.first); });
    std::erase_if(by_thing_, [&](const auto& each) { return !all_.contains(each.second); });
    std::erase_if(
        set_, [&](const auto& each) { return !all_.contains(each.first.first) || !commands_.contains(each.second); });
    bytes_ = 0;
    for (const auto& [number, command] : commands_) bytes_ += command.bytes();
    if (bytes_ > most_) return give_up("it has too many objects (64 MiB of the commands that made them)");
    constexpr std::size_t few = 64 << 10;
    next_look_ = std::min(std::max(2 * bytes_, few), most_);
}

std::vector<Birth> Births::needed() {
    sweep();
    std::vector<Birth> all;
    all.reserve(commands_.size());
    for (const auto& [number, command] : commands_) all.push_back(command.birth);
    return all;
}

std::vector<Op> Births::obstacles() {
    sweep();
    std::vector<Op> all;
    for (const auto& [number, command] : commands_)
        if (rule_of(command.birth.op).carry == Carry::refused && std::ranges::find(all, command.birth.op) == all.end())
            all.push_back(command.birth.op);
    return all;
}

std::vector<Birth::Made> Births::memory() {
    sweep();
    std::vector<Birth::Made> all;
    for (const auto& [thing, number] : by_thing_) {
        if ((thing.sort != Sort::memory && thing.sort != Sort::mapping) || !lives(number)) continue;
        const Life& life = all_.at(number);
        if (commands_.at(life.born).birth.op != Op::cuMemAddressReserve) all.push_back({thing, life.bytes});
    }
    std::ranges::sort(all, {}, [](const Birth::Made& made) { return made.thing.name; });
    return all;
}

}  // namespace barcuda
