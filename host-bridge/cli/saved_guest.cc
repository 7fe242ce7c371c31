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
#include <vector>

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
        std::vector<std::byte> bytes(frame_bytes);
        for (std::size_t frame = 0; frame < frames.count(); ++frame) {
            const auto piece = std::span(bytes).first(frames.size(frame));
            if ((broken = frames.read(frame, piece))) return;
            for (std::size_t done = 0; done < piece.size();) {
                const ssize_t n = write(to.fd(), piece.data() + done, piece.size() - done);
                if (n <= 0) return;  // QEMU has stopped reading, and says why itself
                done += static_cast<std::size_t>(n);
            }
        }
    });
    const Failure e = qemu.loaded();
    writes.join();
    return broken ? broken : e;
}

}  // namespace barcuda
