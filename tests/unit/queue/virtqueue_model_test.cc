// SPDX-License-Identifier: Apache-2.0
// virtqueue_model_test: the queue's memory orderings, under a model checker (support/model.h). Every scenario is run in
// all its interleavings within a bound on preemptions, and then with each ordering taken away in turn: the checker must
// notice.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "shm-device/queue/virtqueue.h"
#include "tests/unit/support/model.h"
#include "tests/unit/support/model_fixture.h"

namespace barcuda::virtqueue {
namespace {

using model::explore;
using model::Limits;
using model::Order;
using model::Outcome;
using model::World;

class Model : public model::Fixture {};

const char* const deadlock_text = "deadlock: everyone sleeps or polls in vain";
constexpr int guest_side = 0, host_side = 1;  // threads, in the order in which scenarios name them

template <unsigned queue_size, class Sync = model::Sync> struct Ring {
    Descriptor<Sync> ring[queue_size];
    Event<Sync> driver_event, device_event;
    Parts<Sync> parts() { return {ring, &driver_event, &device_event}; }
};

// A ring of two descriptors, a call and posts through it: each descriptor is used more than once, and chains cross the
// end of the ring. The bytes of requests and replies must be there when their chain is.
struct Traffic {
    static constexpr unsigned queue_size = 3;
    Ring<queue_size> ring;
    model::Bytes request[2], reply;
    Driver<queue_size, model::Sync> driver{ring.parts()};
    Device<queue_size, model::Sync> device{ring.parts()};
};
void guest(World& w, Traffic& t, int chains) {
    for (int i = 0; i < chains; ++i) {
        const bool call = i % 2 == 0;
        w.await([&] {
            t.driver.reap();
            return t.driver.can_post(call ? 2 : 1) && t.driver.completed() + 2 > unsigned(i);
        });
        if (call && i > 0) w.check(t.reply.get() == unsigned(i) - 1, "the last call's reply is not there");
        t.request[i % 2].set(100 + i);
        const Buffer chain[] = {{std::uint64_t(i), 8, false}, {0, 8, true}};
        t.driver.post(std::span(chain, call ? 2 : 1));
    }
    w.await([&] { return t.driver.reap() == unsigned(chains); });
    w.check(!t.driver.broken(), "the driver calls the device broken");
}
void host(World& w, Traffic& t, int chains, int batch) {
    for (int i = 0; i < chains; ++i) {
        std::optional<Chain> c;
        w.await([&] {
            c = t.device.next();
            return c.has_value() || t.device.lie() != Lie::none;
        });
        w.check(t.device.lie() == Lie::none, text(t.device.lie()));
        w.check(c->sequence == unsigned(i) + 1 && c->request.offset == unsigned(i), "chains out of order");
        w.check(t.request[i % 2].get() == 100u + i, "a chain is there before its request");
        if (c->reply.writable) t.reply.set(i + 1);
        t.device.complete(*c, c->reply.len);
        if ((i + 1) % batch == 0) t.device.flush();
    }
    t.device.flush();
}
void traffic(World& w, int chains, int batch) {
    auto t = std::make_shared<Traffic>();
    w.thread([&w, t, chains] { guest(w, *t, chains); });
    w.thread([&w, t, chains, batch] { host(w, *t, chains, batch); });
}

// The device sleeps when it has nothing to do. A lost kick is a deadlock. `kicks` is the word that it sleeps on, as a
// futex: it goes to sleep only if the word is still what it was before the sleep was announced.
template <class Sync> struct Sleepers {
    static constexpr unsigned queue_size = 2;
    Ring<queue_size, Sync> ring;
    Driver<queue_size, Sync> driver{ring.parts()};
    Device<queue_size, Sync> device{ring.parts()};
    int kicks = 0, wakes = 0;
};
template <class Sync> void sleeping_device(World& w, int chains, bool fenced) {
    auto s = std::make_shared<Sleepers<Sync>>();
    w.thread([&w, s, chains, fenced] {
        const Buffer request[] = {{0, 8, false}};
        for (int i = 0; i < chains; ++i) {
            while (!s->driver.can_post(1))
                w.await([&] {
                    s->driver.reap();
                    return s->driver.can_post(1);
                });
            s->driver.post(request);
            if (s->driver.should_kick(fenced)) ++s->kicks;
        }
    });
    w.thread([&w, s, chains] {
        for (int done = 0; done < chains;) {
            s->device.disable_kick();
            while (auto c = s->device.next()) {
                s->device.complete(*c, 0);
                ++done;
            }
            s->device.flush();  // before it sleeps: what it has come to, the driver must see
            const int seen = s->kicks;
            if (done == chains || s->device.enable_kick()) continue;
            w.block_until([&] { return s->kicks != seen; });
        }
    });
}
void sleeping_device(World& w, int chains) { sleeping_device<model::SyncApart>(w, chains, false); }
void sleeping_device_that_fences_for_both(World& w, int chains) { sleeping_device<model::Sync>(w, chains, true); }
void sleeping_driver(World& w, int chains) {
    auto s = std::make_shared<Sleepers<model::Sync>>();
    w.thread([&w, s, chains] {
        const Buffer request[] = {{0, 8, false}};
        for (int i = 0; i < chains; ++i) s->driver.post(request);
        s->driver.disable_wake();
        for (int seen = 0; s->driver.reap() < unsigned(chains);) {
            if (!s->driver.enable_wake()) {
                w.block_until([&] { return s->wakes > seen; });
                seen = s->wakes;
            }
            s->driver.disable_wake();
        }
    });
    w.thread([&w, s, chains] {
        for (int i = 0; i < chains; ++i) {
            std::optional<Chain> c;
            w.await([&] {
                c = s->device.next();
                return c.has_value();
            });
            s->device.complete(*c, 0);
            s->device.flush();
            if (s->device.should_wake()) ++s->wakes;
        }
    });
}

void passes(const Limits& limits, const std::function<void(World&)>& scenario) {
    const Outcome o = explore(limits, scenario);
    EXPECT_EQ(o.error, "");
    EXPECT_TRUE(o.exhausted || limits.random != 0) << "gave up after " << o.executions;
    ::testing::Test::RecordProperty("executions", static_cast<int>(o.executions));
    std::printf("%llu executions\n", static_cast<unsigned long long>(o.executions));
}
// Without this ordering something must go wrong, and the checker must find it.
void needs(int thread, Order what, const std::function<void(World&)>& scenario, const char* failure) {
    const Outcome o = explore({.weaken = {thread, what}}, scenario);
    EXPECT_EQ(o.error.substr(0, o.error.find('\n')), failure) << "after " << o.executions << ": " << o.error;
}

TEST_F(Model, RequestsAndRepliesArriveInEveryInterleaving) {
    passes({.preemptions = 2}, [](World& w) { traffic(w, 3, 1); });
}
TEST_F(Model, BatchesArriveInEveryInterleaving) {
    passes({.preemptions = 2}, [](World& w) { traffic(w, 3, 2); });
}
TEST_F(Model, ManyLapsArriveInRandomInterleavings) {
    passes({.random = 3000}, [](World& w) { traffic(w, 17, 1); });
    passes({.random = 3000}, [](World& w) { traffic(w, 17, 2); });
}
TEST_F(Model, NoKickIsLost) {
    passes({.preemptions = 3}, [](World& w) { sleeping_device(w, 2); });
    passes({.preemptions = 2}, [](World& w) { sleeping_device(w, 3); });
}
TEST_F(Model, NoKickIsLostWhereTheDeviceFencesForBoth) {
    passes({.preemptions = 3}, [](World& w) { sleeping_device_that_fences_for_both(w, 2); });
    passes({.preemptions = 2}, [](World& w) { sleeping_device_that_fences_for_both(w, 3); });
}
TEST_F(Model, NoWakeIsLost) {
    passes({.preemptions = 3}, [](World& w) { sleeping_driver(w, 2); });
}

TEST_F(Model, Clause_2_8_21_1_1_AvailNeedsTheDriversRelease) {
    needs(
        guest_side, Order::release, [](World& w) { traffic(w, 3, 1); }, "a chain is there before its request");
}
TEST_F(Model, Clause_2_8_6_APartialListIsNeverSeen) {
    const auto lists = [](World& w) {  // no bytes to look at: only the lists themselves
        auto t = std::make_shared<Traffic>();
        const auto await_used = [&w, t](unsigned n) { w.await([=] { return t->driver.reap() == n; }); };
        w.thread([=] {
            const Buffer chain[] = {{0, 8, false}, {0, 8, true}};
            for (unsigned i = 1; i <= 3; ++i) {
                t->driver.post(chain);
                await_used(i);
            }
        });
        w.thread([&w, t] {
            for (int i = 0; i < 3; ++i) {
                std::optional<Chain> c;
                w.await([&] {
                    c = t->device.next();
                    return c || t->device.lie() != Lie::none;
                });
                w.check(c.has_value(), text(t->device.lie()));
                t->device.complete(*c, 8);
                t->device.flush();
            }
        });
    };
    passes({.preemptions = 3}, lists);
    needs(guest_side, Order::release, lists, text(Lie::partial));
}
TEST_F(Model, AvailNeedsTheDevicesAcquire) {
    needs(
        host_side, Order::acquire, [](World& w) { traffic(w, 3, 1); }, "a chain is there before its request");
}
TEST_F(Model, UsedNeedsTheDevicesRelease) {
    needs(
        host_side, Order::release, [](World& w) { traffic(w, 3, 1); }, "the last call's reply is not there");
}
TEST_F(Model, Clause_2_8_22_UsedNeedsTheDriversAcquire) {
    needs(
        guest_side, Order::acquire, [](World& w) { traffic(w, 3, 1); }, "the last call's reply is not there");
}
TEST_F(Model, Clause_2_8_21_3_1_KickNeedsTheDriversFence) {
    needs(
        guest_side, Order::fence, [](World& w) { sleeping_device(w, 2); }, deadlock_text);
}
TEST_F(Model, KickNeedsTheDevicesFence) {
    needs(
        host_side, Order::fence, [](World& w) { sleeping_device(w, 2); }, deadlock_text);
}
TEST_F(Model, WithoutTheDriversFenceKickNeedsTheDevicesForBoth) {
    needs(
        host_side, Order::fence, [](World& w) { sleeping_device_that_fences_for_both(w, 2); }, deadlock_text);
}
TEST_F(Model, WakeNeedsTheDevicesFence) {
    needs(
        host_side, Order::fence, [](World& w) { sleeping_driver(w, 2); }, deadlock_text);
}
TEST_F(Model, WakeNeedsTheDriversFence) {
    needs(
        guest_side, Order::fence, [](World& w) { sleeping_driver(w, 2); }, deadlock_text);
}

// The checker itself, on what every textbook knows.
TEST_F(Model, TheCheckerSeesStoreBuffering) {
    for (bool fences : {false, true}) {
        const Outcome o = explore({}, [fences](World& w) {
            struct State {
                model::Bytes x, y;
                std::uint64_t a = 1, b = 1;
                int done = 0;
            };
            auto s = std::make_shared<State>();
            const auto last = [&w, s] {
                if (++s->done == 2) w.check(s->a == 1 || s->b == 1, "both read 0");
            };
            w.thread([=] {
                s->x.set(1);
                fences ? model::Sync::fence() : void();
                s->a = s->y.get();
                last();
            });
            w.thread([=] {
                s->y.set(1);
                fences ? model::Sync::fence() : void();
                s->b = s->x.get();
                last();
            });
        });
        EXPECT_EQ(o.error.empty(), fences) << o.error;
    }
}
TEST_F(Model, TheCheckerSeesUnorderedMessages) {
    for (bool ordered : {false, true}) {
        const Outcome o = explore({}, [ordered](World& w) {
            struct State {
                model::Bytes data;
                model::Sync::Atomic<std::uint32_t> flag;
            };
            auto s = std::make_shared<State>();
            w.thread([=] {
                s->data.set(1);
                s->flag.store(1, ordered ? std::memory_order_release : std::memory_order_relaxed);
            });
            w.thread([=, &w] {
                if (s->flag.load(std::memory_order_acquire)) w.check(s->data.get() == 1, "flag without data");
            });
        });
        EXPECT_EQ(o.error.empty(), ordered) << o.error;
    }
}

}  // namespace
}  // namespace barcuda::virtqueue
