// SPDX-License-Identifier: Apache-2.0
// virtqueue.h: the control queue, a VIRTIO 1.2 packed virtqueue (section 2.8) with VIRTIO_F_IN_ORDER (2.8.8).
//
// A command is a chain of one or two descriptors: a request that the device reads and, if an answer is needed, a reply
// buffer that it writes. The guest's half is Driver, the host's half is Device; both name a buffer by its offset in the
// region. The ring is 16-byte descriptors that both sides write in turn: the driver makes one available, the device
// overwrites the first of a batch as used. There is no shared index: each side keeps its own place and wrap counter and
// looks at exactly one descriptor, the next one (2.8.2).
//
// A descriptor is two words here, `addr` and `tail` (len, id and flags in one 64-bit word), so that it becomes
// available, or used, by one store, and is read by two loads. Sync points (AVAIL, USED, KICK, WAKE) are told in sync.h.
//
// The device trusts nothing: it reads each word of a descriptor once, uses that copy, and never reads its own state
// back. The driver trusts its device to be honest but not to be free of bugs: it reports an impossible completion as
// broken() and never follows it. Neither half allocates, waits, or makes a system call, except for the one fence of a
// device that goes to sleep.
#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"

namespace barcuda::virtqueue {

// 2.8.1, 2.8.3, 2.8.6, 2.8.7: the bits of a descriptor's flags.
constexpr std::uint16_t flag_next = 1 << 0;
constexpr std::uint16_t flag_write = 1 << 1;
constexpr std::uint16_t flag_indirect = 1 << 2;
constexpr std::uint16_t flag_avail = 1 << 7;
constexpr std::uint16_t flag_used = 1 << 15;

// 2.8.10: what an event suppression structure says. RING_EVENT_FLAGS_DESC (2) needs VIRTIO_F_EVENT_IDX, which this
// queue does not offer; like the reserved 3 it is read as "enabled", since one notification too many does no harm.
constexpr std::uint32_t event_enable = 0;
constexpr std::uint32_t event_disable = 1;

constexpr unsigned max_chain = 2;  // 2.8.5 lets a device limit its lists: a request and a reply are all that we need

// 2.8.13: one descriptor, with the fields of its second half held together.
template <class Sync = Smp> struct Descriptor {
    typename Sync::template Atomic<std::uint64_t> addr;
    typename Sync::template Atomic<std::uint64_t> tail;
};
static_assert(sizeof(Descriptor<>) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

struct Tail {
    std::uint32_t len;
    std::uint16_t id;
    std::uint16_t flags;
};
constexpr std::uint64_t pack(Tail t) { return t.len | std::uint64_t{t.id} << 32 | std::uint64_t{t.flags} << 48; }
constexpr Tail unpack(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
            static_cast<std::uint16_t>(word >> 48)};
}

// 2.8.14: an event suppression structure is one 32-bit word: the place (unused here) below, the flags above.
template <class Sync = Smp> using Event = typename Sync::template Atomic<std::uint32_t>;
constexpr std::uint32_t event_word(std::uint32_t flags) { return flags << 16; }
constexpr std::uint32_t event_flags(std::uint32_t word) { return word >> 16 & 3; }

// The three parts of a virtqueue, zero when it is new (2.8.13). Each has one writer but the ring.
template <class Sync = Smp> struct Parts {
    Descriptor<Sync>* ring;
    Event<Sync>* driver_event;  // written by the driver: does it want to be woken?
    Event<Sync>* device_event;  // written by the device: does it want to be kicked?
};

// Where layout.h puts them in a mapped channel. The two events have a cache line each: they have different writers.
inline Parts<> in_channel(void* channel) {
    char* c = static_cast<char*>(channel);
    return {reinterpret_cast<Descriptor<>*>(c + BARCUDA_RING_OFFSET),
            reinterpret_cast<Event<>*>(c + BARCUDA_DRIVER_EVENT_OFFSET),
            reinterpret_cast<Event<>*>(c + BARCUDA_DEVICE_EVENT_OFFSET)};
}

// Whether the driver has announced that it sleeps. Unordered: a caller that misses it must look again.
template <class Sync> bool sleeps(const Parts<Sync>& parts) {
    return event_flags(parts.driver_event->load(std::memory_order_relaxed)) != event_disable;
}

// For all threads of the device's side, and whatever else the driver sleeps for: behind it, is it to be woken?
template <class Sync> bool wants_wake(const Parts<Sync>& parts) {
    Sync::fence();  // WAKE
    return sleeps(parts);
}

// A place in the ring and its wrap counter (2.8.1): which value of AVAIL or USED is news there.
template <unsigned queue_size> struct Place {
    std::uint32_t index = 0;
    bool wrap = true;

    void advance(std::uint32_t n) {  // n <= queue_size
        index += n;
        if (index >= queue_size) {
            index -= queue_size;
            wrap = !wrap;
        }
    }
    std::uint16_t available() const { return wrap ? flag_avail : flag_used; }  // flags that differ: AVAIL == wrap
    std::uint16_t used() const { return wrap ? flag_avail | flag_used : 0; }   // flags that agree, and with wrap
    bool is_available(std::uint16_t flags) const { return (flags & (flag_avail | flag_used)) == available(); }
    bool is_used(std::uint16_t flags) const { return (flags & (flag_avail | flag_used)) == used(); }
};

struct Buffer {
    std::uint64_t offset = 0;  // in the region
    std::uint32_t len = 0;
    bool writable = false;  // by the device
};

// The guest's half. Many threads may post; the caller's lock makes them one at a time. Not thread-safe in itself.
template <unsigned queue_size = BARCUDA_QUEUE_SIZE, class Sync = Smp> class alignas(64) Driver {
    static_assert(queue_size >= 1 && queue_size <= 1u << 15);  // 2.8: at most 2^15 entries

  public:
    explicit Driver(Parts<Sync> parts) : parts_(parts) {}

    std::uint64_t posted() const { return posted_; }        // chains so far; also the newest chain's sequence number
    std::uint64_t completed() const { return completed_; }  // as of the last reap()
    bool can_post(std::size_t n) const { return n <= queue_size - in_flight_; }
    bool broken() const { return broken_; }  // the device has used what was never made available

    // Makes a chain available and returns its sequence number (1, 2, 3, ...). Needs can_post(chain.size()) (2.8.17:
    // room for the whole list before its first descriptor) and 1 <= size <= max_chain, readable buffers first.
    std::uint64_t post(std::span<const Buffer> chain) {
        if (chain.empty() || chain.size() > max_chain || !can_post(chain.size())) std::abort();  // a bug of the caller
        const Place<queue_size> first = avail_;
        const auto id =
            static_cast<std::uint16_t>(posted_ % queue_size);  // free: fewer than queue_size chains are under way
        std::uint64_t first_tail = 0;
        for (std::size_t i = 0; i < chain.size(); ++i) {
            const Buffer& b = chain[i];
            const bool last = i + 1 == chain.size();
            const std::uint16_t flags =
                static_cast<std::uint16_t>(avail_.available() | (b.writable ? flag_write : 0) |
                                           (last ? 0 : flag_next));  // 2.8.6: in every descriptor
            const std::uint64_t tail = pack({b.len, id, flags});
            Descriptor<Sync>& d = parts_.ring[avail_.index];
            d.addr.store(b.offset, std::memory_order_relaxed);
            if (i == 0) first_tail = tail;
            else d.tail.store(tail, std::memory_order_relaxed);
            avail_.advance(1);
        }
        in_flight_ += static_cast<std::uint32_t>(chain.size());
        end_[id] = avail_;
        // 2.8.6, 2.8.21.1.1: the first descriptor last, behind a barrier: never a partial list in the ring.
        parts_.ring[first.index].tail.store(first_tail, std::memory_order_release);  // AVAIL
        return ++posted_;
    }

    // How many chains the device has used, in all: chain n is done once reap() >= n.
    std::uint64_t reap() {
        while (completed_ != posted_ && !broken_) {
            const Tail t = unpack(parts_.ring[used_.index].tail.load(std::memory_order_acquire));  // USED
            if (!used_.is_used(t.flags)) break;
            // 2.8.8: one used descriptor may stand for a batch, which ends with the chain of this id.
            const std::uint64_t batch = (t.id + queue_size - completed_ % queue_size) % queue_size + 1;
            if (t.id >= queue_size || batch > posted_ - completed_) {
                broken_ = true;
                break;
            }
            completed_ += batch;
            used_ = end_[t.id];
            in_flight_ = completed_ == posted_ ? 0 : distance(used_, avail_);
        }
        return completed_;
    }

    // After post: must the device be kicked? (2.8.21.3.1: a barrier before the device's event is read; a device that
    // shares our kernel executes it for us, while it goes to sleep: `fenced`.) Not twice for one sleep: a device that
    // has not come to the chain that it was last kicked for is awake, and looks for more before it sleeps again.
    bool should_kick(bool fenced = false) {
        if (!fenced) Sync::fence();  // KICK
        if (event_flags(parts_.device_event->load(std::memory_order_relaxed)) == event_disable) return false;
        if (reap() < kicked_) return false;
        kicked_ = posted_;
        return true;
    }

    // Asks to be woken. True if something was used meanwhile: then reap instead of sleeping, the wake-up may never
    // come.
    bool enable_wake() {
        parts_.driver_event->store(event_word(event_enable), std::memory_order_relaxed);
        Sync::fence();  // WAKE
        if (completed_ == posted_) return false;
        return used_.is_used(unpack(parts_.ring[used_.index].tail.load(std::memory_order_relaxed)).flags);
    }
    void disable_wake() { parts_.driver_event->store(event_word(event_disable), std::memory_order_relaxed); }

  private:
    static std::uint32_t distance(Place<queue_size> from, Place<queue_size> to) {
        return from.wrap == to.wrap ? to.index - from.index : to.index + queue_size - from.index;
    }

    const Parts<Sync> parts_;
    Place<queue_size> avail_;      // where the next chain goes
    Place<queue_size> used_;       // where the next used descriptor will appear
    std::uint32_t in_flight_ = 0;  // descriptors
    bool broken_ = false;
    std::uint64_t posted_ = 0;                         // chains
    std::uint64_t completed_ = 0;                      // chains
    std::uint64_t kicked_ = 0;                         // the newest chain that the device was kicked for
    std::array<Place<queue_size>, queue_size> end_{};  // by id: the place behind that chain
};

// What a driver can do that no honest one does. The session ends with it.
enum class Lie : std::uint8_t { none, too_long, partial, order, shape, indirect, reserved, overrun };

constexpr const char* text(Lie lie) {
    constexpr const char* texts[] = {
        "none",
        "a chain of more than two descriptors",
        "a chain made available before its last descriptor",
        "a writable buffer before a readable one",
        "a chain that is not one request and at most one reply",
        "an indirect descriptor, which was not offered",
        "a reserved bit in a descriptor's flags",
        "a chain longer than the free part of the queue",
    };
    return texts[static_cast<unsigned>(lie)];
}

// A chain as the device copied it out: nothing in it refers to the ring any more. Offsets and lengths are the guest's
// claims; the user of a chain checks them.
struct Chain {
    Buffer request;
    Buffer reply;                // len 0 and not writable: no answer is wanted
    std::uint64_t sequence = 0;  // 1, 2, 3, ...: the driver's number, counted here
    std::uint16_t id = 0;        // echoed, never used
    std::uint16_t count = 0;     // descriptors
};

// The host's half, for one thread.
template <unsigned queue_size = BARCUDA_QUEUE_SIZE, class Sync = Smp> class alignas(64) Device {
    static_assert(queue_size >= 1 && queue_size <= 1u << 15);

  public:
    // Where it stands in the ring when nothing is under way, which no word of the ring tells: for a device that goes on
    // where another one has stopped.
    struct State {
        std::uint32_t index = 0;  // of the next chain, and of the next used descriptor
        bool wrap = true;
        std::uint64_t chains = 0;  // so far
        bool operator==(const State&) const = default;
    };

    explicit Device(Parts<Sync> parts) : parts_(parts) {}
    Device(Parts<Sync> parts, const State& state)
        : parts_(parts),
          avail_{state.index, state.wrap},
          used_(avail_),
          taken_(state.chains),
          completed_(state.chains) {
        if (state.index >= queue_size) std::abort();  // a bug of the caller
    }

    // All that was taken has been shown as used.
    bool quiet() const { return in_flight_ == 0; }
    // Needs quiet().
    State state() const {
        if (!quiet()) std::abort();  // a bug of the caller
        return {avail_.index, avail_.wrap, taken_};
    }

    Lie lie() const { return lie_; }  // sticky: after a lie, next() answers nothing more

    // The next chain, if there is one.
    std::optional<Chain> next() {
        if (lie_ != Lie::none || in_flight_ == queue_size) return {};
        const Descriptor<Sync>& first = parts_.ring[avail_.index];
        const Tail head = unpack(first.tail.load(std::memory_order_acquire));  // AVAIL
        if (!avail_.is_available(head.flags)) return {};
        Place<queue_size> place = avail_;
        place.advance(1);
        Chain chain;
        chain.request = {first.addr.load(std::memory_order_relaxed), head.len, (head.flags & flag_write) != 0};
        chain.id = head.id;
        chain.count = 1;
        if (!lawful(head.flags)) return {};
        if (head.flags & flag_next) {
            if (in_flight_ + max_chain > queue_size) return liar(Lie::overrun);
            const Descriptor<Sync>& second = parts_.ring[place.index];
            const Tail last = unpack(second.tail.load(std::memory_order_relaxed));  // ordered by AVAIL
            if (!place.is_available(last.flags)) return liar(Lie::partial);
            if (!lawful(last.flags)) return {};
            if (last.flags & flag_next) return liar(Lie::too_long);
            chain.reply = {second.addr.load(std::memory_order_relaxed), last.len, (last.flags & flag_write) != 0};
            chain.id = last.id;  // 2.8.6: the id is in the last descriptor of the list
            chain.count = 2;
            place.advance(1);
            if (chain.request.writable) return liar(chain.reply.writable ? Lie::shape : Lie::order);
            if (!chain.reply.writable) return liar(Lie::shape);
        } else if (chain.request.writable) {
            return liar(Lie::shape);
        }
        avail_ = place;
        in_flight_ += chain.count;
        chain.sequence = ++taken_;
        return chain;
    }

    // Gives back the chain that next() gave last, where each one before it has been shown as used: next() of this
    // device, or of the one that goes on where it stops, gives it again.
    void put_back(const Chain& chain) {
        if (batch_ != 0 || in_flight_ != chain.count || chain.sequence != taken_) std::abort();  // a bug of the caller
        avail_ = used_;
        in_flight_ = 0;
        --taken_;
    }

    // Marks the oldest chain that is under way as used, `written` bytes of its reply filled. The driver learns of it at
    // the next flush(): in order, one used descriptor stands for the whole batch (2.8.8). A reply that was not filled
    // ends its batch, since skipped buffers count as used completely (2.8.8).
    void complete(const Chain& chain, std::uint32_t written) {
        if (chain.sequence != completed_ + 1 || completed_ == taken_) std::abort();  // a bug of the caller
        ++completed_;
        batch_ += chain.count;
        last_ = {written, chain.id,
                 static_cast<std::uint16_t>(written ? flag_write : 0)};  // 2.8.3: was anything written?
        if (written != chain.reply.len) flush();
    }

    // Shows the driver what was completed. True if there was something: then should_wake() is worth asking.
    bool flush() {
        if (batch_ == 0) return false;
        // 2.8.8: the used descriptor overwrites the first available one of its batch and carries the id of the last.
        last_.flags |= used_.used();
        parts_.ring[used_.index].tail.store(pack(last_), std::memory_order_release);  // USED
        used_.advance(batch_);
        in_flight_ -= batch_;
        batch_ = 0;
        return true;
    }

    // After flush: does the driver want to be woken?
    bool should_wake() const { return wants_wake(parts_); }

    // Asks to be kicked, once all that was completed has been flushed. True if a chain came meanwhile: then take it
    // instead of sleeping, the kick may never come.
    bool enable_kick() {
        parts_.device_event->store(event_word(event_enable), std::memory_order_relaxed);
        Sync::fence_all();  // KICK
        if (lie_ != Lie::none || in_flight_ == queue_size) return false;
        return avail_.is_available(unpack(parts_.ring[avail_.index].tail.load(std::memory_order_relaxed)).flags);
    }
    void disable_kick() { parts_.device_event->store(event_word(event_disable), std::memory_order_relaxed); }

  private:
    bool lawful(std::uint16_t flags) {
        if (flags & flag_indirect) lie_ = Lie::indirect;  // 2.8.19
        else if (flags & ~(flag_next | flag_write | flag_avail | flag_used)) lie_ = Lie::reserved;
        return lie_ == Lie::none;
    }
    std::nullopt_t liar(Lie lie) {
        lie_ = lie;
        return std::nullopt;
    }

    const Parts<Sync> parts_;
    Place<queue_size> avail_;      // where the next chain will appear
    Place<queue_size> used_;       // where the next used descriptor goes
    std::uint32_t in_flight_ = 0;  // descriptors taken and not yet shown as used
    std::uint32_t batch_ = 0;      // descriptors completed and not yet shown
    Tail last_{};                  // the used descriptor of that batch, without its AVAIL and USED
    Lie lie_ = Lie::none;
    std::uint64_t taken_ = 0;      // chains
    std::uint64_t completed_ = 0;  // chains
};

}  // namespace barcuda::virtqueue
