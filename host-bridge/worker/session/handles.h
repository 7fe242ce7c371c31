// SPDX-License-Identifier: Apache-2.0
// handles.h: a client's handles. The guest has ids; the driver's pointers stay here. Ids that the guest chose index one
// table; ids that the host gave (for objects that the driver already had, such as a module's functions) index another.
// An entry stores its type: a stream's id is never accepted as an event.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shm-device/cuda/libraries.h"
#include "shm-device/queue/wire.h"

namespace barcuda {

template <class T> struct TypeOf;
#define BARCUDA_HANDLE(type, number) \
    template <> struct TypeOf<type> { static constexpr std::uint8_t value = number; }
BARCUDA_HANDLE(CUcontext, 1);
BARCUDA_HANDLE(CUmodule, 2);
BARCUDA_HANDLE(CUlibrary, 3);
BARCUDA_HANDLE(CUfunction, 4);
BARCUDA_HANDLE(CUkernel, 5);
BARCUDA_HANDLE(CUstream, 6);
BARCUDA_HANDLE(CUevent, 7);
BARCUDA_HANDLE(CUarray, 8);
BARCUDA_HANDLE(CUmipmappedArray, 9);
BARCUDA_HANDLE(CUmemoryPool, 10);
BARCUDA_HANDLE(CUgraph, 11);
BARCUDA_HANDLE(CUgraphExec, 12);
BARCUDA_HANDLE(CUgraphNode, 13);
BARCUDA_HANDLE(CUmemGenericAllocationHandle, 14);
BARCUDA_HANDLE(CUlinkState, 15);
BARCUDA_HANDLE(cublasHandle_t, 16);
BARCUDA_HANDLE(curandGenerator_t, 17);
BARCUDA_HANDLE(CUuserObject, 18);
BARCUDA_HANDLE(CUgraphConditionalHandle, 19);
BARCUDA_HANDLE(CUtexref, 20);
BARCUDA_HANDLE(CUsurfref, 21);
#undef BARCUDA_HANDLE

// Types that end with the context in which they were made: the driver may then use the same address for another object.
template <class T> inline constexpr bool lives_in_a_context =
    std::is_same_v<T, CUmodule> || std::is_same_v<T, CUfunction> || std::is_same_v<T, CUstream> ||
    std::is_same_v<T, CUevent> || std::is_same_v<T, CUarray> || std::is_same_v<T, CUmipmappedArray> ||
    std::is_same_v<T, CUlinkState> || std::is_same_v<T, CUtexref> || std::is_same_v<T, CUsurfref>;

// Types for which a driver takes device memory by itself.
template <class T> inline constexpr bool takes_device_memory =
    std::is_same_v<T, CUcontext> || std::is_same_v<T, CUmodule> || std::is_same_v<T, CUlibrary> ||
    std::is_same_v<T, CUstream> || std::is_same_v<T, CUgraphExec> || std::is_same_v<T, cublasHandle_t> ||
    std::is_same_v<T, curandGenerator_t>;

// Types whose numbers the driver repeats in each outermost graph: a condition has one number in a graph and all graphs
// inside it.
template <class T> inline constexpr bool numbered_by_graph = std::is_same_v<T, CUgraphConditionalHandle>;

class Handles {
  public:
    // The guest may choose this id: it is in range and free.
    bool vacant(std::uint64_t id) const {
        const Entry* e = entry(id);
        return id >= wire::first_id && id < wire::most_ids && (!e || e->type == 0);
    }
    template <class T> void keep(std::uint64_t id, T value, std::uint64_t context = 0) {
        chosen(id) = {raw(value), 0, lives_in_a_context<T> ? context : 0, TypeOf<T>::value, 0};
        if (std::is_same_v<T, CUstream>) streams_.insert(id);
        ids_[{raw(value), 0, TypeOf<T>::value}] = id;
    }
    // The id of an object that the driver returned: always the same one. As a part of `whole` it ends with it.
    template <class T> std::uint64_t name(T value, std::uint64_t whole = 0, std::uint64_t context = 0) {
        if (raw(value) == 0) return 0;
        whole = whole_for<T>(whole);
        auto [at, fresh] = ids_.try_emplace(key<T>(value, whole), 0);
        if (!fresh) return at->second;
        std::uint64_t index = given_.size();
        if (reusable(TypeOf<T>::value) && !free_.empty()) {
            index = free_.back();
            free_.pop_back();
            ++given_[index].turn;
        } else {
            given_.emplace_back();
        }
        return at->second = give(index, value, whole, context);
    }
    // The same of an object that had this id in another process. False: another object has it, or none ever had. Which
    // places are free is set in the end, by restore().
    template <class T> bool name_as(std::uint64_t id, T value, std::uint64_t whole = 0, std::uint64_t context = 0) {
        constexpr std::uint64_t most = 1 << 24;  // places: no client is allowed as many objects
        if (raw(value) == 0) return id == 0;
        whole = whole_for<T>(whole);
        auto [at, fresh] = ids_.try_emplace(key<T>(value, whole), id);
        if (!fresh) return at->second == id;
        const std::uint64_t index = index_of(id);
        if (id < wire::given || index >= most || (index < given_.size() && given_[index].type)) {
            ids_.erase(at);
            return false;
        }
        if (index >= given_.size()) given_.resize(index + 1);
        given_[index].turn = static_cast<std::uint32_t>(id >> 32);
        give(index, value, whole, context);
        return true;
    }
    // From now on this object of the client's is a part of `whole`. Its id is not reused: there are four million.
    void join(std::uint64_t id, std::uint64_t whole) {
        const_cast<Entry*>(entry(id))->whole = whole;
        parts_.emplace(whole, id);
    }
    template <class T> bool find(std::uint64_t id, T& value) const {
        const Entry* e = entry(id);
        if (!e || e->type != TypeOf<T>::value) return false;
        value = (T)e->raw;
        return true;
    }
    std::size_t size() const { return ids_.size(); }
    bool contains(std::uint64_t id) const {
        const Entry* e = entry(id);
        return e && e->type;
    }
    // Of what it is a part; 0: of nothing.
    std::uint64_t whole_of(std::uint64_t id) const {
        const Entry* e = entry(id);
        return e ? e->whole : 0;
    }
    template <class T> bool has(T value) const { return ids_.contains(key<T>(value)); }
    // 0: the client knows of no such object.
    template <class T> std::uint64_t id_of(T value) const {
        const auto at = ids_.find(key<T>(value));
        return at == ids_.end() ? 0 : at->second;
    }
    // The id of the context with which the driver's object ends; 0: it goes with none, or is no object of the client's.
    template <class T> std::uint64_t context_of(T value) const {
        const auto at = ids_.find(key<T>(value));
        const Entry* const e = at == ids_.end() ? nullptr : entry(at->second);
        return e ? e->context : 0;
    }
    // Whether the driver's object is a part of `whole` and still exists.
    template <class T> bool is_part(T value, std::uint64_t whole) const {
        if (numbered_by_graph<T>) whole = outermost(whole);
        const auto at = ids_.find(key<T>(value, whole));
        const Entry* e = at == ids_.end() ? nullptr : entry(at->second);
        return e && e->whole == whole;
    }
    void drop(std::uint64_t id) {
        Entry* e = const_cast<Entry*>(entry(id));
        if (!e || e->type == 0) return;
        ids_.erase({e->raw, e->type == TypeOf<CUgraphConditionalHandle>::value ? e->whole : 0, e->type});
        if (id >= wire::given && reusable(e->type)) free_.push_back(index_of(id));
        if (e->type == TypeOf<CUstream>::value) streams_.erase(id);
        *e = {0, 0, 0, 0, e->turn};
        // In the order of their ids: which place is given next follows from what state() has, not from a table's order.
        std::vector<std::uint64_t> parts;
        const auto [first, behind] = parts_.equal_range(id);
        std::transform(first, behind, std::back_inserter(parts), [](const auto& part) { return part.second; });
        parts_.erase(first, behind);
        std::sort(parts.begin(), parts.end());
        for (const std::uint64_t part : parts)
            if (const Entry* g = entry(part); g && g->whole == id) drop(part);  // else it went before
    }
    // All of it, as plain numbers. Of an object only `raw` belongs to this process: a worker that goes on with a
    // client in another process puts there what it has made in that object's place.
    struct State {
        struct Object {
            std::uint64_t id, raw, whole, context;
            std::uint8_t type;
            bool operator==(const Object&) const = default;
        };
        std::vector<Object> objects;       // in the order of their ids' places
        std::vector<std::uint32_t> turns;  // of each place that the host gives ids from
        std::vector<std::uint64_t> free;   // such places, in the order in which they were left
        bool operator==(const State&) const = default;
    };
    State state() const {
        State all;
        each_chosen([&](std::uint64_t id, const Entry& e) {
            if (e.type) all.objects.push_back({id, e.raw, e.whole, e.context, e.type});
        });
        for (std::uint64_t i = 0; i < given_.size(); ++i) {
            const Entry& e = given_[i];
            all.turns.push_back(e.turn);
            if (e.type) all.objects.push_back({given_id(i), e.raw, e.whole, e.context, e.type});
        }
        all.free = free_;
        return all;
    }
    // Replaces all entries. False, and the table is empty: the state is invalid.
    bool restore(const State& state) {
        *this = Handles();
        given_.resize(state.turns.size());
        for (std::uint64_t i = 0; i < given_.size(); ++i) given_[i].turn = state.turns[i];
        free_ = state.free;
        bool sound = true;
        for (const State::Object& o : state.objects) {
            Entry* const e =
                o.id < wire::most_ids && o.id >= wire::first_id ? &chosen(o.id) : const_cast<Entry*>(entry(o.id));
            if (!(sound = sound && e && !e->type && o.type && o.raw)) break;
            *e = {o.raw, o.whole, o.context, o.type, e->turn};
            if (o.type == TypeOf<CUstream>::value && o.id < wire::most_ids) streams_.insert(o.id);
            ids_[{o.raw, o.type == TypeOf<CUgraphConditionalHandle>::value ? o.whole : 0, o.type}] = o.id;
            if (o.whole) parts_.emplace(o.whole, o.id);
        }
        for (const std::uint64_t place : free_) sound = sound && place < given_.size() && !given_[place].type;
        if (!sound) *this = Handles();
        return sound;
    }

    // The streams that the client made, in the order of their ids. A program may have any number of other objects.
    template <class F> void each_stream(F f) const {
        for (const std::uint64_t id : streams_) f((CUstream)entry(id)->raw);
    }
    // The ids of all objects in a context.
    std::vector<std::uint64_t> within(std::uint64_t context) const {
        std::vector<std::uint64_t> ids;
        if (context == 0) return ids;
        each_chosen([&](std::uint64_t id, const Entry& e) {
            if (e.context == context) ids.push_back(id);
        });
        for (std::uint64_t i = 0; i < given_.size(); ++i)
            if (given_[i].context == context) ids.push_back(given_id(i));
        return ids;
    }

  private:
    struct Entry {
        std::uint64_t raw = 0, whole = 0, context = 0;  // context: 0 if it goes with none
        std::uint8_t type = 0;
        std::uint32_t turn = 0;  // counts the uses of a place in `given_`, so that its ids differ
    };
    // Programs make any number of graphs, and retain memory. For other objects that the host names, the guest caches
    // what it learnt, by id.
    static bool reusable(std::uint8_t type) {
        return type == TypeOf<CUgraphNode>::value || type == TypeOf<CUgraph>::value ||
               type == TypeOf<CUmemGenericAllocationHandle>::value || type == TypeOf<CUgraphConditionalHandle>::value;
    }
    // The key for finding one of the driver's objects.
    struct Key {
        std::uint64_t raw, graph;  // graph: 0 if the driver's number is unique
        std::uint8_t type;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& k) const {
            return std::hash<std::uint64_t>{}((k.raw + k.graph * 0x9e3779b97f4a7c15) * 31 + k.type);
        }
    };
    template <class T> static std::uint64_t raw(T value) { return (std::uint64_t)value; }
    template <class T> static Key key(T value, std::uint64_t graph = 0) {
        return {raw(value), numbered_by_graph<T> ? graph : 0, TypeOf<T>::value};
    }
    // A node reached from another node belongs to that node's graph.
    template <class T> std::uint64_t whole_for(std::uint64_t whole) const {
        if constexpr (std::is_same_v<T, CUgraphNode>)
            if (const Entry* e = entry(whole); e && e->type == TypeOf<T>::value) whole = e->whole;
        return numbered_by_graph<T> ? outermost(whole) : whole;
    }
    template <class T> std::uint64_t give(std::uint64_t index, T value, std::uint64_t whole, std::uint64_t context) {
        given_[index] = {raw(value), whole, lives_in_a_context<T> ? context : 0, TypeOf<T>::value, given_[index].turn};
        const std::uint64_t id = given_id(index);
        if (whole) parts_.emplace(whole, id);
        return id;
    }
    // The graph that is not inside a node, for one that is a node's branch or child.
    std::uint64_t outermost(std::uint64_t graph) const {
        for (const Entry* e = entry(graph); e && e->whole; e = entry(graph)) graph = e->whole;
        return graph;
    }
    std::uint64_t given_id(std::uint64_t index) const {
        return std::uint64_t{given_[index].turn} << 32 | (wire::given + index);
    }
    Entry& chosen(std::uint64_t id) {
        auto& page = chosen_[id / page_entries];
        if (!page) page.reset(new Entry[page_entries]);
        return page[id % page_entries];
    }
    static std::uint64_t index_of(std::uint64_t id) { return (id & 0xffffffff) - wire::given; }
    const Entry* entry(std::uint64_t id) const {
        if (id >= wire::given) {
            const std::uint64_t index = index_of(id);
            return index < given_.size() && given_[index].turn == id >> 32 ? &given_[index] : nullptr;
        }
        if (id >= wire::most_ids) return nullptr;
        const auto& page = chosen_[id / page_entries];
        return page ? &page[id % page_entries] : nullptr;
    }
    template <class F> void each_chosen(F f) const {
        for (std::size_t page = 0; page < chosen_.size(); ++page)
            for (std::size_t i = 0; chosen_[page] && i < page_entries; ++i)
                f(page * page_entries + i, chosen_[page][i]);
    }
    // The guest may begin with any id: a page of the table exists if one of its ids does.
    static constexpr std::size_t page_entries = 1024;
    std::vector<std::unique_ptr<Entry[]>> chosen_{wire::most_ids / page_entries};
    std::vector<Entry> given_;
    std::vector<std::uint64_t> free_;                              // reusable places in `given_`
    std::unordered_multimap<std::uint64_t, std::uint64_t> parts_;  // whole -> part
    std::unordered_map<Key, std::uint64_t, Hash> ids_;
    std::set<std::uint64_t> streams_;
};

}  // namespace barcuda
