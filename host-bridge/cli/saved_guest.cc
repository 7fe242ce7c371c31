// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/saved_guest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/caught.h"
#include "host-bridge/suspended/description.h"
#include "host-bridge/suspended/frames.h"

namespace barcuda {

Failure load_guest(const File& part, Qemu& qemu) {
    FrameReader frames;
    if (Failure e = frames.open(part.fd())) return fmt::format("{}: {}", part_of_vm, e.text());
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    File to(ends[1]);
    {
        const File qemus(ends[0]);
        if (Failure e = qemu.load(qemus)) return e;
    }
    Failure broken;
    std::jthread writes([&frames, &broken, to = std::move(to)] {
        bool stopped = false;  // QEMU has stopped reading, and says why itself
        const auto write = [&](std::span<const std::byte> piece) -> Failure {
            stopped = write_all(to.fd(), piece) != 0;
            return stopped ? Failure("QEMU reads no more") : Failure();
        };
        broken = caught([&] { return each_frame(frames, write); });
        if (stopped) broken = Failure();
    });
    const Failure e = qemu.loaded();
    writes.join();
    return broken ? broken : e;
}

}  // namespace barcuda
