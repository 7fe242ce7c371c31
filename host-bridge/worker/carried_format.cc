// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/carried_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/content_hash.h"
#include "shm-device/queue/packet.h"
#include "shm-device/rows/listing.h"

namespace barcuda {
namespace {

class Out {
  public:
    template <class T> void put(const T& value) {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        const auto word = static_cast<std::uint64_t>(value);
        put_bytes(std::as_bytes(std::span(&word, 1)));
    }
    void put_bytes(std::span<const std::byte> from) {
        bytes_.insert(bytes_.end(), from.begin(), from.end());
        bytes_.resize(padded(bytes_.size()));
    }
    void put_all(const auto& numbers) {
        put(numbers.size());
        for (const auto number : numbers) put(number);
    }
    // ---- the names that In has, too
    void number(const auto& value) { put(value); }
    void numbers(const auto& all) { put_all(all); }
    void text(const std::string& value) {
        put(value.size());
        put_bytes(std::as_bytes(std::span(value)));
    }
    void list(const auto& all, std::size_t, const auto& each) {
        put(all.size());
        for (const auto& one : all) each(one);
    }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
};

class In {
  public:
    explicit In(std::span<const std::byte> from) : reader_(from) {}
    // 0, and not ok(), where nothing is left, or the value is another type's.
    template <class T> T get() {
        std::uint64_t value = 0;
        reader_.get(value);
        ok_ = ok_ && static_cast<std::uint64_t>(static_cast<T>(value)) == value;
        return static_cast<T>(value);
    }
    template <class T> void get(T& value) { value = get<T>(); }
    // The number of things that follow. Each takes at least `bytes_each`.
    std::size_t count(std::size_t bytes_each) {
        const auto count = get<std::uint64_t>();
        ok_ = ok_ && count <= reader_.left() / bytes_each;
        return ok() ? count : 0;
    }
    std::span<const std::byte> get_bytes(std::size_t count) {
        const std::byte* const at = reader_.skip(count);
        return at ? std::span(at, count) : std::span<const std::byte>();
    }
    template <class T> void get_all(std::vector<T>& numbers) {
        numbers.resize(count(sizeof(std::uint64_t)));
        for (T& number : numbers) get(number);
    }
    void number(auto& value) { get(value); }
    void numbers(auto& all) { get_all(all); }
    void text(std::string& value) {
        const auto bytes = get_bytes(count(1));
        value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    void list(auto& all, std::size_t numbers_each, const auto& each) {
        all.resize(count(numbers_each * sizeof(std::uint64_t)));
        for (auto& one : all) each(one);
    }
    bool ok() const { return ok_ && reader_.ok(); }
    bool done() const { return ok() && reader_.done(); }

  private:
    Reader reader_;
    bool ok_ = true;
};

// Each in the order in which they are named first.
template <class T> class Places {
  public:
    std::uint64_t of(const T& one) {
        const auto [its, fresh] = places_.try_emplace(one, all_.size());
        if (fresh) all_.push_back(one);
        return its->second;
    }
    const std::vector<T>& all() const { return all_; }

  private:
    std::map<T, std::uint64_t> places_;
    std::vector<T> all_;
};

// What is written and read, in one order for both: `io` is an Out or an In. A list says how many numbers each of its
// things has.
template <class Io, class State> void session_state(Io& io, State& s) {
    io.list(s.handles.objects, 4, [&](auto& object) {  // `raw` is of one process
        io.number(object.id);
        io.number(object.whole);
        io.number(object.context);
        io.number(object.type);
    });
    io.numbers(s.handles.turns);
    io.numbers(s.handles.free);
    io.number(s.context);
    io.number(s.has_captured);
    io.number(s.calls.asked);
    io.number(s.fences.posted_failures);
    io.number(s.fences.fault);
    io.text(s.output.printed);
    io.number(s.prints);
}
template <class Io, class Rows> void client_rows(Io& io, Rows& rows) {
    io.list(rows, 3, [&](auto& row) {
        io.number(row.identity);
        io.text(row.name);
        io.number(row.needed);
    });
}
template <class Io, class State> void channel_state(Io& io, State& s) {
    io.number(s.queue.index);
    io.number(s.queue.wrap);
    io.number(s.queue.chains);
    io.number(s.supply.answered);
    for (auto& run : s.supply.prepared) {
        io.number(run.offset);
        io.number(run.bytes);
    }
    io.list(s.extents, 2, [&](auto& extent) {
        io.number(extent.first);
        io.number(extent.second);
    });
}

// From a set, which may be any process's: it is shown to people, and its numbers index tables.
bool are_rows(const ClientRows::State& rows) {
    constexpr std::size_t most_letters = 128;
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    const auto is_row = [&](const ClientRows::Row& row) {
        return row.name.size() <= most_letters && std::ranges::all_of(row.name, is_letter) &&
               !(row.needed && row.name.empty());
    };
    return !rows.empty() && rows.size() <= BARCUDA_MAX_ROWS && std::ranges::all_of(rows, is_row);
}

std::optional<Op> row_of(std::uint64_t identity) {
    const auto known = std::ranges::find(row_identities(), identity);
    if (known == row_identities().end()) return {};
    return static_cast<Op>(known - row_identities().begin());
}

}  // namespace

std::vector<CodeStore::Ref> code_of(const Carried& carried) {
    std::vector<CodeStore::Ref> all;
    for (const Birth& birth : carried.births)
        if (birth.code && std::ranges::find(all, birth.code) == all.end()) all.push_back(birth.code);
    return all;
}

std::vector<std::byte> written(const Carried& carried) {
    Places<Op> rows;
    const std::vector<CodeStore::Ref> code = code_of(carried);
    Out births;
    births.put(carried.births.size());
    for (const Birth& b : carried.births) {
        births.put(rows.of(b.op));
        births.put(b.context);
        births.put(b.answer);
        births.put(b.unloaded);
        births.put(b.code ? std::ranges::find(code, b.code) - code.begin() + 1 : 0);
        births.put_all(b.names);
        births.put(b.made.size());
        for (const Birth::Made& made : b.made) {
            births.put(made.thing.sort);
            births.put(made.thing.name);
            births.put(made.bytes);
        }
        births.put(b.body.size());
        births.put_bytes(b.body);
    }
    births.put_all(carried.recorded_events);
    session_state(births, carried.state);
    channel_state(births, carried);

    Out all;
    client_rows(all, carried.rows);
    all.put(rows.all().size());
    for (const Op op : rows.all()) all.put(row_identities()[static_cast<std::size_t>(op)]);
    all.put(code.size());
    for (const CodeStore::Ref& image : code) {
        all.put(image->hash);
        all.put(image->bytes);
    }
    all.put_bytes(births.bytes());

    CarriedHead head;
    head.packets = BARCUDA_PACKETS;
    std::string_view(BARCUDA_VERSION).copy(head.build, sizeof head.build - 1);
    head.bytes = all.bytes().size();
    head.hash = content_hash(all.bytes());
    std::vector<std::byte> bytes(sizeof head + all.bytes().size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, all.bytes().data(), all.bytes().size());
    return bytes;
}

Failure read(std::span<const std::byte> bytes, const FindCode& find, Carried& carried) {
    CarriedHead head;
    if (bytes.size() < sizeof head) return "it is shorter than its head";
    std::memcpy(&head, bytes.data(), sizeof head);
    head.build[sizeof head.build - 1] = 0;
    bytes = bytes.subspan(sizeof head);
    if (head.magic != CarriedHead::right_magic) return "it is no client that was carried";
    if (head.format != CarriedHead::right_format || head.packets != BARCUDA_PACKETS)
        return fmt::format(
            "barcuda {} wrote it with format {} and packets {}; this is barcuda {} with {} and {}. Use "
            "a build with the same numbers",
            head.build, head.format, head.packets, BARCUDA_VERSION, CarriedHead::right_format, BARCUDA_PACKETS);
    if (head.bytes != bytes.size() || head.hash != content_hash(bytes)) return "it is damaged, or was cut short";

    In in(bytes);
    Carried all;
    client_rows(in, all.rows);
    if (!in.ok() || !are_rows(all.rows)) return "the numbers of its commands are none";
    const auto lacks = [&](const std::string& name) {
        return fmt::format(
            "its program uses {}, which barcuda {} does not have: wake it with the build that wrote it (barcuda {}), "
            "or with one that has this command",
            name, BARCUDA_VERSION, head.build);
    };
    for (const ClientRows::Row& row : all.rows)
        if (row.needed && !row_of(row.identity)) return lacks(row.name);
    std::vector<std::uint64_t> identities, code;
    std::vector<Op> rows;
    in.get_all(identities);
    for (const std::uint64_t identity : identities) {
        const auto known = row_of(identity);
        if (!known) {
            const auto its = std::ranges::find(all.rows, identity, &ClientRows::Row::identity);
            return lacks(its == all.rows.end() ? "a command" : its->name);
        }
        rows.push_back(*known);
    }
    std::vector<CodeStore::Ref> images(in.count(2 * sizeof(std::uint64_t)));
    for (CodeStore::Ref& image : images) {
        const auto hash = in.get<std::uint64_t>(), size = in.get<std::uint64_t>();
        if (in.ok() && !(image = find(hash, size)))
            return fmt::format("an image of its code is missing ({:016x}, {} bytes)", hash, size);
    }
    all.births.resize(in.count(8 * sizeof(std::uint64_t)));
    for (Birth& b : all.births) {
        const auto row = in.get<std::size_t>();
        in.get(b.context);
        in.get(b.answer);
        in.get(b.unloaded);
        const auto image = in.get<std::size_t>();
        if (!in.ok() || row >= rows.size() || image > images.size()) return "it names a row or an image that it lacks";
        b.op = rows[row];
        if (image != 0) b.code = images[image - 1];
        in.get_all(b.names);
        b.made.resize(in.count(3 * sizeof(std::uint64_t)));
        for (Birth::Made& made : b.made) {
            in.get(made.thing.sort);
            in.get(made.thing.name);
            in.get(made.bytes);
        }
        const auto body = in.get_bytes(in.count(1));
        b.body.assign(body.begin(), body.end());
    }
    in.get_all(all.recorded_events);
    session_state(in, all.state);
    channel_state(in, all);
    if (!in.done()) return "it is not as long as it says";
    carried = std::move(all);
    return {};
}

}  // namespace barcuda
