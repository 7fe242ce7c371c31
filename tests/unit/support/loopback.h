// SPDX-License-Identifier: Apache-2.0
// loopback.h: a command from the kinds' guest side through perform() into a driver and libraries that only watch, in
// one process.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "host-bridge/worker/execute.h"
#include "tests/unit/support/fake_driver.h"
#include "tests/unit/support/sample.h"

namespace barcuda {

struct Loopback : testing::Test {
    fake::Ground ground;
    SessionScope scope{ground.session};
    fake::World& world = fake::World::current();
    sample::Guest guest;
    std::vector<std::byte> reply = std::vector<std::byte>(1 << 20);
    explicit Loopback(const Driver& driver = fake::driver(), int region = -1)
        : ground(fake::ground_base, driver, region) {
        guest.offset = 0x1000;
    }

    std::uint32_t context = 0;  // the id of the one that commands are sent in; 0: whichever is current

    Verdict send(Op op, std::span<const std::byte> bytes, How how = How::call) {
        Writer w(reply);
        return perform(ground.session, {static_cast<std::uint32_t>(op), context}, bytes, how == How::call, w);
    }
    // As guest-allocator/client/command.h does it, without a queue.
    template <Op op, class... Given> Verdict call(Given... given) {
        using R = RowOf<op>;
        typename R::Arguments arguments{given...};
        typename R::Parameters parameters{};
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            std::vector<std::byte> bytes((std::size_t{0} + ... + std::get<I>(parameters).room(arguments)));
            Writer w(bytes);
            (std::get<I>(parameters).send(w, arguments, guest), ...);
            const Verdict v = send(op, bytes, R::how);
            Reader r(reply);
            if (v.ok()) (std::get<I>(parameters).receive(r, arguments, guest), ...);
            return v;
        }
        (std::make_index_sequence<R::count>{});
    }
    CUstream stream() {
        CUstream s = nullptr;
        EXPECT_TRUE((call<Op::cuStreamCreateWithPriority>(&s, 0u, 0).ok()));
        return s;
    }
    CUgraph graph() {
        CUgraph g = nullptr;
        EXPECT_TRUE((call<Op::cuGraphCreate>(&g, 0u).ok()));
        return g;
    }
    static std::uint64_t id(auto handle) { return reinterpret_cast<std::uint64_t>(handle); }
    CUdeviceptr region(std::uint64_t offset) const { return fake::ground_base + offset; }
};

}  // namespace barcuda
