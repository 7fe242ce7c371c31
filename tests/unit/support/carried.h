// SPDX-License-Identifier: Apache-2.0
// carried.h: a client whose worker is the test's own process, over the software GPU or over a driver that only watches;
// the parts with which it leaves that process; and the next process, in which it goes on. (The software GPU gives the
// same addresses again only in a process of its own.)
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "host-bridge/between/device_choice.h"
#include "host-bridge/worker/carriable.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/memory/layer.h"
#include "host-bridge/worker/wake.h"
#include "tests/unit/support/bridge_end.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {

// What blocks need of a worker.
struct BlocksWorker : Granter, GpuWork {
    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}
    bool idle() override { return false; }
    bool may_capture() override { return true; }

    Driver& driver() {
        static Driver table;
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
        EXPECT_EQ("", table.open(software_library()).text());
        EXPECT_EQ(CUDA_SUCCESS, table.cuInit(0));
        allocate_in_blocks(table, *this, *this);
        return table;
    }
};

struct CarriedClient : BlocksWorker, Loopback {
    CodeStore code;
    // `region`: a file of fake::Ground::bytes; -1: one of its own.
    explicit CarriedClient(int region = -1) : Loopback(driver(), region) { ground.session.record_births(code); }
    // Over a driver that only watches.
    struct Watched {};
    CarriedClient(Watched, int region) : Loopback(fake::driver(), region) { ground.session.record_births(code); }
    void TestBody() override {}
    Session& session() { return ground.session; }
    const Driver& gpu() { return ground.table; }

    // The GPU has done all of its work.
    void wait() {
        session().launches().flush();
        const Contexts::Visit visit(session().contexts());
        for (const Contexts::Living& living : session().contexts().living()) {
            session().contexts().switch_to(living.context);
            gpu().cuCtxSynchronize();
        }
    }
};

// Runs that in a process of its own, in which all expectations must hold.
inline void in_a_process(const std::function<void()>& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        body();
        std::fflush(nullptr);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_EQ(status, 0) << "what a client did in its process";
}

// With what a client leaves a worker: files without names, which several processes have.
struct CarriedParts {
    const File files[3] = {file(), file(), file()};
    const File& births() const { return files[static_cast<std::size_t>(carrying::Which::births)]; }
    const File& memory() const { return files[static_cast<std::size_t>(carrying::Which::memory)]; }

    const File& code() const { return files[static_cast<std::size_t>(carrying::Which::code)]; }

    static File file() { return File(memfd_create("part", MFD_CLOEXEC)); }
    static std::vector<std::byte> bytes_of(const File& file) {
        struct stat about {};
        EXPECT_EQ(0, fstat(file.fd(), &about));
        std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
        EXPECT_EQ(about.st_size, pread(file.fd(), bytes.data(), bytes.size(), 0));
        return bytes;
    }
    // What stands in the way; nothing: all of the client was written.
    Hindrance write(CarriedClient& client) const {
        Station station(client.session());
        for (std::size_t i = 0; i < std::size(files); ++i) {
            EXPECT_TRUE(ftruncate(files[i].fd(), 0) == 0 && lseek(files[i].fd(), 0, SEEK_SET) == 0);
            if (i != 2) station.hand(static_cast<carrying::Which>(i), files[i].fd());
        }
        MemoryRelay relay;
        relay.into(memory());
        station.hand(carrying::Which::memory, relay.take_socket(true).fd());
        station.hand(carrying::Which::room, relay.room().fd());
        station.order(carrying::Wanted::write);
        return {station.place.what, station.place.cure};
    }
    Failure wake(CarriedClient& client) const {
        BridgeLink::Parts parts;
        for (std::size_t i = 0; i < std::size(files); ++i) {
            EXPECT_EQ(0, lseek(files[i].fd(), 0, SEEK_SET));
            if (i != 2) parts[i] = File(dup(files[i].fd()));
        }
        MemoryRelay relay;
        relay.from(memory());
        parts[2] = relay.take_socket(false);
        parts[3] = File(dup(relay.room().fd()));
        CarryPlace place;
        Carried carried;
        Failure failure = barcuda::wake(client.session(), client.code, parts, place, carried);
        for (File& part : parts) part = File();  // a relay whose worker has failed ends, too
        relay.join();
        if (!failure) { EXPECT_LT(place.memory, bytes_of(memory()).size()) << "each frame has its length there"; }
        return failure;
    }
};

}  // namespace barcuda
