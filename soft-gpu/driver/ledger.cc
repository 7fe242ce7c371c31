// SPDX-License-Identifier: Apache-2.0
#include "soft-gpu/driver/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace barcuda::soft {
namespace {

std::mutex beginnings_and_ends;

// Without a file no other process sees the ledger.
void* memory() {
    alignas(Ledger) static char unseen[sizeof(Ledger)];
    const int file = memfd_create(Ledger::name, MFD_CLOEXEC);
    if (file < 0) return unseen;
    const int known = fcntl(file, F_DUPFD_CLOEXEC, Ledger::descriptor);
    void* at = MAP_FAILED;
    if (ftruncate(file, sizeof(Ledger)) == 0)
        at = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, known < 0 ? file : known, 0);
    close(file);
    return at == MAP_FAILED ? unseen : at;
}

}  // namespace

Ledger& Ledger::own() {
    static Ledger& ledger = [&]() -> Ledger& {
        Ledger& made = *new (memory()) Ledger;
        made.pid = getpid();
        return made;
    }();
    return ledger;
}

std::array<int, most_devices> Ledger::numbers_;

void Ledger::show(std::span<const int> numbers) { std::ranges::copy(numbers, numbers_.begin()); }

Busy::Busy(int device) : device_(Ledger::of(device)) {
    std::lock_guard lock(beginnings_and_ends);
    if (device_.running == 0) device_.since = Ledger::now();
    ++device_.running;
}

Busy::~Busy() {
    std::lock_guard lock(beginnings_and_ends);
    if (device_.running == 1) device_.busy += Ledger::now() - device_.since;
    --device_.running;
}

}  // namespace barcuda::soft
