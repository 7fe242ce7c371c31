// SPDX-License-Identifier: Apache-2.0
// stub_bridge: the host's side of the module's tests. Formats a region and does with slots and grants what a bridge
// does, but serves no commands: each client is granted the granules of its slot at once, and they are free again when
// they are mapped no more. It takes barcuda-bridge's command line, so that tests/vm/run can start it instead.
//
// Slot i gets granules [2 i, 2 i + 2), if there are that many: a test knows what is its own, and what its neighbour's.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "host-bridge/bridge/doorbell.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"
#include "tests/vm/stub_bridge.h"

using namespace barcuda;

namespace {

volatile std::sig_atomic_t stopped = 0;

struct Stub {
    char* memory;
    std::uint64_t size;
    bool file;
    int fd;
    barcuda_header& header() const { return *reinterpret_cast<barcuda_header*>(memory); }
    barcuda_slot& slot(unsigned i) const { return reinterpret_cast<barcuda_slot*>(memory + BARCUDA_SLOTS_OFFSET)[i]; }
    barcuda_grant& grant(unsigned i) const {
        return reinterpret_cast<barcuda_grant*>(memory + BARCUDA_GRANTS_OFFSET)[i];
    }

    void clear(std::uint64_t offset, std::uint64_t bytes) const {
        if (!file || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0)
            std::memset(memory + offset, 0, bytes);
    }
    void clean_channel(unsigned i) const {
        const std::uint64_t offset = BARCUDA_CHANNELS_OFFSET + i * BARCUDA_CHANNEL_SIZE;
        clear(offset, BARCUDA_CHANNEL_SIZE);
        reinterpret_cast<barcuda_status*>(memory + offset)->channel = i;
    }

    void format() const {
        barcuda_header& h = header();
        publish(h.magic, 0);
        std::memset(memory, 0, BARCUDA_CHANNELS_OFFSET);
        divide(h, size);
        h.layout = BARCUDA_LAYOUT;
        h.header_bytes = BARCUDA_CHANNELS_OFFSET;
        h.base = BARCUDA_DEFAULT_BASE;
        h.packets = BARCUDA_PACKETS;
        h.row_count = stub_rows;
        h.rows_offset = BARCUDA_ROWS_OFFSET;
        for (unsigned i = 0; i < h.channel_count; ++i) clean_channel(i);
        slot(stub_left_open).opened = 1;  // as if the guest had been reset under a client
        grant(stub_left_open).mapped = 7;
        publish(h.magic, BARCUDA_MAGIC);
    }

    // What a bridge does when its client opens and when it has closed.
    void serve(unsigned i) const {
        barcuda_slot& s = slot(i);
        const std::uint32_t opened = observe(s.opened), closed = observe(s.closed);
        const unsigned first = std::min(i * stub_granules, header().granule_count);
        const unsigned end = std::min(first + stub_granules, header().granule_count);
        if (opened != closed && s.served != opened) {
            for (unsigned g = first; g < end; ++g)
                if (observe(grant(g).mapped) != 0) return;  // a child of the last client still reads
            for (unsigned g = first; g < end; ++g) {
                clear(header().extents_offset + g * BARCUDA_GRANULE, BARCUDA_GRANULE);
                publish(grant(g).owner, i + 1);
            }
            publish(s.served, opened);
        }
        if (opened == closed && s.reclaimed != closed) {
            for (unsigned g = first; g < end; ++g) publish(grant(g).owner, 0);
            clean_channel(i);
            publish(s.reclaimed, closed);
        }
    }
};

const char* value_of(int argc, char** argv, const char* option) {
    for (int i = 1; i + 1 < argc; ++i)
        if (!std::strcmp(argv[i], option)) return argv[i + 1];
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    const char *path = value_of(argc, argv, "--region"), *size = value_of(argc, argv, "--size");
    const char* ready = value_of(argc, argv, "--ready-fd");
    if (!path || !size) {
        std::fprintf(stderr,
                     "usage: stub_bridge --region FILE|/dev/uioN --size SIZE [--ready-fd N] [--doorbell SOCKET]\n");
        return 2;
    }
    char* unit = nullptr;
    std::uint64_t bytes = std::strtoull(size, &unit, 0);
    bytes <<= *unit == 'G' ? 30 : *unit == 'M' ? 20 : 0;

    const int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st {};
    const bool file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const off_t window = file ? 0 : 3 * BARCUDA_PAGE;  // the module's map 3: a device without hardware
    void* memory = MAP_FAILED;
    if (fd >= 0 && (!file || ftruncate(fd, static_cast<off_t>(bytes)) == 0))
        memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, window);
    if (memory == MAP_FAILED) {
        std::perror(path);
        return 1;
    }
    const Stub stub{static_cast<char*>(memory), bytes, file, fd};
    stub.format();
    Doorbell doorbell;
    if (const char* socket = value_of(argc, argv, "--doorbell"))
        if (const Failure wrong = doorbell.open(socket, fd, barcuda::Kept())) {
            std::fprintf(stderr, "stub_bridge: %s\n", wrong.text().c_str());
            return 1;
        }
    std::signal(SIGTERM, [](int) { stopped = 1; });
    if (ready && write(std::atoi(ready), "\n", 1) != 1) return 1;
    while (!stopped) {
        for (unsigned i = 0; i < stub.header().channel_count; ++i) stub.serve(i);
        pollfd rung{doorbell.fd(), POLLIN, 0};
        constexpr std::uint64_t once = 1;  // each ring is answered with a ring
        if (poll(&rung, 1, 1) > 0 && doorbell.answer([](const Visitor&) { return false; }) &&
            write(doorbell.guest(), &once, sizeof once) != sizeof once)
            return 1;
    }
}
