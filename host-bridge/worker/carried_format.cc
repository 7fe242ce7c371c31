// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/carried_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
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

void put(Out& out, const Session::State& s) {
    out.put(s.handles.objects.size());
    for (const Handles::State::Object& o : s.handles.objects) {
        out.put(o.id);
        out.put(o.whole);
        out.put(o.context);
        out.put(o.type);
    }
    out.put_all(s.handles.turns);
    out.put_all(s.handles.free);
    out.put(s.context);
    out.put(s.has_captured);
    out.put(s.calls.asked);
    out.put(s.fences.posted_failures);
    out.put(s.fences.fault);
    out.put(s.output.printed.size());
    out.put_bytes(std::as_bytes(std::span(s.output.printed)));
    out.put(s.prints);
}
void get(In& in, Session::State& s) {
    s.handles.objects.resize(in.count(4 * sizeof(std::uint64_t)));
    for (Handles::State::Object& o : s.handles.objects) {
        in.get(o.id);
        in.get(o.whole);
        in.get(o.context);
        in.get(o.type);
        o.raw = 0;  // of that process
    }
    in.get_all(s.handles.turns);
    in.get_all(s.handles.free);
    in.get(s.context);
    in.get(s.has_captured);
    in.get(s.calls.asked);
    in.get(s.fences.posted_failures);
    in.get(s.fences.fault);
    const auto printed = in.get_bytes(in.count(1));
    s.output.printed.assign(reinterpret_cast<const char*>(printed.data()), printed.size());
    in.get(s.prints);
}

void put(Out& out, const Carried& c) {
    out.put(c.queue.index);
    out.put(c.queue.wrap);
    out.put(c.queue.chains);
    out.put(c.supply.answered);
    for (const Supply::Run& run : c.supply.prepared) {
        out.put(run.offset);
        out.put(run.bytes);
    }
    out.put(c.extents.size());
    for (const auto& [offset, bytes] : c.extents) {
        out.put(offset);
        out.put(bytes);
    }
}
void get(In& in, Carried& c) {
    in.get(c.queue.index);
    in.get(c.queue.wrap);
    in.get(c.queue.chains);
    in.get(c.supply.answered);
    for (Supply::Run& run : c.supply.prepared) {
        in.get(run.offset);
        in.get(run.bytes);
    }
    c.extents.resize(in.count(2 * sizeof(std::uint64_t)));
    for (auto& [offset, bytes] : c.extents) {
        in.get(offset);
        in.get(bytes);
    }
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
    put(births, carried.state);
    put(births, carried);

    Out all;
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
    head.rows_hash = rows_hash(row_identities());
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
    std::vector<std::uint64_t> identities, code;
    std::vector<Op> rows;
    in.get_all(identities);
    for (const std::uint64_t identity : identities) {
        const auto known = std::ranges::find(row_identities(), identity);
        if (known == row_identities().end())
            return fmt::format("barcuda {} wrote it, and used a row that barcuda {} does not have", head.build,
                               BARCUDA_VERSION);
        rows.push_back(static_cast<Op>(known - row_identities().begin()));
    }
    std::vector<CodeStore::Ref> images(in.count(2 * sizeof(std::uint64_t)));
    for (CodeStore::Ref& image : images) {
        const auto hash = in.get<std::uint64_t>(), size = in.get<std::uint64_t>();
        if (in.ok() && !(image = find(hash, size)))
            return fmt::format("an image of its code is missing ({:016x}, {} bytes)", hash, size);
    }
    Carried all;
    all.births.resize(in.count(7 * sizeof(std::uint64_t)));
    for (Birth& b : all.births) {
        const auto row = in.get<std::size_t>();
        in.get(b.context);
        in.get(b.answer);
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
    get(in, all.state);
    get(in, all);
    if (!in.done()) return "it is not as long as it says";
    carried = std::move(all);
    return {};
}

}  // namespace barcuda
