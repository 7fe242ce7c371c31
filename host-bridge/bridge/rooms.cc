// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/rooms.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/os/futex.h"
#include "base/os/thread.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// The host keeps this much for other things.
constexpr std::uint64_t of_the_host = 256 << 20;

// In bytes; all of it, where the kernel does not say.
std::uint64_t available() {
    char text[512];
    const int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[std::max<ssize_t>(n, 0)] = '\0';
    const char* const at = std::strstr(text, "MemAvailable:");
    return at ? std::strtoull(at + std::strlen("MemAvailable:"), nullptr, 10) << 10 : ~std::uint64_t{0};
}

// With pages behind all of it. -1: the host lacks the memory.
int make_file(std::uint64_t bytes) {
    if (available() < bytes + of_the_host) return -1;
    const int file = memfd_create("barcuda-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return -1;
    if (fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return file;
    close(file);
    return -1;
}

void empty(int file) {
    const off_t bytes = lseek(file, 0, SEEK_END);
    if (bytes > 0) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes);
    close(file);
}

std::uint64_t sum_of(const Rooms::Account& account) {
    std::uint64_t granules = 0;
    for (const auto& its : account.granules) granules += its;
    return granules * Rooms::granule;
}

}  // namespace

Rooms::Rooms(std::uint64_t store, std::uint64_t ready, std::uint32_t clients, Part<Account> books)
    : store_(store / granule * granule),
      own_(books.records.empty() ? clients : 0),
      of_(books.records.empty() ? std::span(own_) : books.records),
      held_(of_.size()),
      jobs_(of_.size() + std::min(ready, store_) / most_bytes),
      slots_(of_.size()),
      ends_(most_files(store_) / 2) {  // more are emptied at once
    for (auto& end : ends_) end = -1;
    for (std::size_t slot = 0; slot < slots_ && books.kept; ++slot) held_[slot] = sum_of(of_[slot]);
    for (std::size_t i = slots_; i < jobs_.size(); ++i) jobs_[i].bytes = most_bytes;
    keep_ready();
}

Rooms::~Rooms() {
    over_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
    for (Job& job : jobs_)
        if (job.state == Job::made) close(job.file);
    for (auto& end : ends_)
        if (end >= 0) close(end);
}

Failure Rooms::start() {
    if (store_ == 0) return {};
    done_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!done_) return fmt::format("the store has no eventfd: {}", strerror(errno));
    const os::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    return {};
}

void Rooms::wake() {
    std::atomic_ref(work_).fetch_add(1, std::memory_order_release);
    futex_wake(work_, Among::threads);
}

void Rooms::run() {
    constexpr int low = 10;
    constexpr std::uint64_t a_while = 10'000'000'000;
    setpriority(PRIO_PROCESS, 0, low);  // of this thread
    while (!over_) {
        const std::uint32_t seen = observe(work_);
        if (!work() && !over_) futex_wait(work_, seen, a_while, Among::threads);
    }
}

// Empties one released file per new one: it no longer counts, but still has pages. What clients wait for, by turns,
// comes before what is kept ready.
bool Rooms::work() {
    bool some = false;
    for (auto& end : ends_)
        if (end >= 0) {
            empty(end.exchange(-1));
            some = true;
            break;
        }
    for (std::size_t n = 0; n < slots_; ++n) {
        const std::size_t slot = (turn_ + n) % slots_;
        if (!do_job(jobs_[slot])) continue;
        turn_ = slot + 1;
        return true;
    }
    if (some) return true;
    for (std::size_t i = slots_; i < jobs_.size(); ++i)
        if (do_job(jobs_[i])) return true;
    return false;
}

bool Rooms::do_job(Job& job) {
    std::uint32_t dropped = Job::dropped;  // before it was begun
    job.state.compare_exchange_strong(dropped, Job::none);
    if (job.state != Job::wanted) return false;
    job.file = make_file(job.bytes);
    std::uint32_t state = Job::wanted;
    if (!job.state.compare_exchange_strong(state, job.file < 0 ? Job::failed : Job::made)) {
        if (job.file >= 0) empty(job.file);
        job.state = Job::none;
    }
    const std::uint64_t once = 1;  // EAGAIN: the reader is already notified.
    return !done_ || write(done_.fd(), &once, sizeof once) == sizeof once || errno == EAGAIN;
}

std::uint32_t Rooms::next(std::uint32_t slot) const {
    const auto& all = of_[slot].granules;
    const auto free = std::ranges::find_if(all, [](const auto& its) { return its == 0; });
    return free == std::end(all) ? 0 : static_cast<std::uint32_t>(free - all) + 1;
}

std::uint64_t Rooms::most_of(std::uint32_t number) const {
    constexpr std::uint32_t half = most_of_a_client / 2;
    return number <= half ? most_bytes : std::max(most_bytes, (store_ / half + granule - 1) / granule * granule);
}

Rooms::Asked Rooms::ask(std::uint32_t slot, std::uint64_t bytes, const Limits& limits) {
    const auto left = [](std::uint64_t limit, std::uint64_t has) { return limit - std::min(limit, has); };
    std::uint64_t room = left(store_, held());
    if (limits.client) room = std::min(room, left(limits.client, held_[slot]));
    if (limits.guest) room = std::min(room, left(limits.guest, held()));
    const std::uint32_t number = next(slot);
    const std::uint64_t its = std::min({bytes, room, most_of(number)}) / granule * granule;
    if (jobs_[slot].state != Job::none) return Asked::busy;
    if (its == 0) return Asked::full;
    if (number == 0) return Asked::has_most_files;
    of_[slot].granules[number - 1] = static_cast<std::uint32_t>(its / granule);
    held_[slot] += its;
    return ask_again(slot, number) ? Asked::begun : Asked::busy;
}

bool Rooms::ask_again(std::uint32_t slot, std::uint32_t number) {
    if (number == 0 || number > most_of_a_client || of_[slot].granules[number - 1] == 0) return false;
    Job& job = jobs_[slot];
    if (job.state != Job::none) return false;
    job.number = number;
    job.bytes = of_[slot].granules[number - 1] * granule;
    for (std::size_t i = slots_; i < jobs_.size() && job.bytes == most_bytes; ++i) {
        Job& ready = jobs_[i];
        if (ready.state != Job::made) continue;
        job.file = ready.file;
        ready.state = Job::none;
        job.state = Job::made;
        break;
    }
    if (job.state == Job::none) job.state = Job::wanted;
    keep_ready();
    wake();
    return true;
}

// As many as there is room for beside what clients have. (One that is being made stays, and counts when it is made.)
void Rooms::keep_ready() {
    std::uint64_t bytes = held();
    for (std::size_t i = slots_; i < jobs_.size(); ++i) {
        Job& job = jobs_[i];
        if (job.state == Job::failed) job.state = Job::none;  // the host may have memory now
        const bool fits = bytes + job.bytes <= store_;
        if (fits && job.state == Job::none) job.state = Job::wanted;
        if (!fits && job.state == Job::made) {
            end(File(job.file));
            job.state = Job::none;
        }
        if (job.state != Job::none) bytes += job.bytes;
    }
}

std::optional<Rooms::Room> Rooms::take(std::uint32_t slot) {
    Job& job = jobs_[slot];
    const std::uint32_t state = job.state;
    if (state != Job::made && state != Job::failed) return {};
    if (state == Job::failed) drop(slot, job.number);
    else given_.insert_or_assign({slot, job.number}, File(job.file));
    const Room room{job.number, job.bytes, job.file};
    job.state = Job::none;
    return room;
}

bool Rooms::give_back(std::uint32_t slot, std::uint32_t number) {
    if (number == 0 || number > most_of_a_client || of_[slot].granules[number - 1] == 0) return false;
    if (makes(slot)) return false;  // a worker has one request at a time
    drop(slot, number);
    if (auto file = given_.extract({slot, number})) end(std::move(file.mapped()));
    return true;
}

void Rooms::drop(std::uint32_t slot, std::uint32_t number) {
    if (number == 0 || number > most_of_a_client) return;
    Word<std::uint32_t>& granules = of_[slot].granules[number - 1];
    if (granules == 0) return;
    held_[slot] -= granules * granule;
    granules = 0;
    keep_ready();
}

void Rooms::end(File file) {
    for (auto& end : ends_)
        if (end < 0) {
            end = file.release();
            return wake();
        }
    empty(file.release());
}

void Rooms::forget(std::uint32_t slot) {
    Job& job = jobs_[slot];
    std::uint32_t state = Job::wanted;
    if (!job.state.compare_exchange_strong(state, Job::dropped) && state == Job::made) {
        end(File(job.file));
        job.state = Job::none;
    } else if (state == Job::failed) {
        job.state = Job::none;
    }
    for (auto at = given_.lower_bound({slot, 0}); at != given_.end() && at->first.first == slot;) {
        end(std::move(at->second));
        at = given_.erase(at);
    }
    for (Word<std::uint32_t>& granules : of_[slot].granules)
        if (granules != 0) granules = 0;
    held_[slot] = 0;
    keep_ready();
}

void Rooms::restore(const std::function<bool(std::uint32_t slot)>& lives) {
    for (std::uint32_t slot = 0; slot < slots_; ++slot)
        if (held_[slot] != 0 && !lives(slot)) forget(slot);
}

std::uint64_t Rooms::held(std::uint32_t slot) const { return held_[slot]; }
std::uint64_t Rooms::held() const { return std::accumulate(held_.begin(), held_.end(), std::uint64_t{0}); }

std::uint64_t Rooms::ready() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = slots_; i < jobs_.size(); ++i) bytes += jobs_[i].state == Job::made ? most_bytes : 0;
    return bytes;
}

}  // namespace barcuda
