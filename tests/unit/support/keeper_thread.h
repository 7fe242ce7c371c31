// SPDX-License-Identifier: Apache-2.0
// keeper_thread.h: a keeper that answers one bridge, on a thread of its own, for tests of what a bridge has it keep.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

#include "base/message.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/keeper/keeper.h"

namespace barcuda::test {

// A link's two ends.
inline std::pair<File, File> a_link() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    return {File(ends[0]), File(ends[1])};
}

// This process, and so the keeper in it, gets no more descriptors.
struct NoMoreFiles {
    rlimit before{};
    NoMoreFiles() {
        getrlimit(RLIMIT_NOFILE, &before);
        const rlimit none{0, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
    }
    ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before); }
};

class KeeperThread {
  public:
    KeeperThread() {
        auto [its, bridges] = a_link();
        link = std::move(bridges);
        thread_ = std::thread([this, own = std::move(its)] {
            keeping::Request request;
            for (File file; receive_message(own.fd(), &request, sizeof request, file) == sizeof request;) {
                int with = -1;
                const keeping::Answer answer = keeper.serve(request, std::move(file), with);
                file = File();
                if (static_cast<keeping::Form>(request.form) != keeping::Form::alive)
                    send_message(own.fd(), &answer, sizeof answer, with);
            }
        });
    }
    // The bridge's end is closed by then.
    ~KeeperThread() {
        link = File();
        thread_.join();
    }
    KeeperThread(const KeeperThread&) = delete;

    Keeper keeper{-1, -1};
    File link;  // the bridge's end

  private:
    std::thread thread_;
};

}  // namespace barcuda::test
