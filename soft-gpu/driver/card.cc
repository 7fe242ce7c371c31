// SPDX-License-Identifier: Apache-2.0
#include "soft-gpu/driver/card.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <semaphore>
#include <thread>

namespace barcuda::soft {
namespace {

void make(pthread_mutex_t& mutex) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &kind);
    pthread_mutexattr_destroy(&kind);
}

bool complain(const char* what) {
    std::fprintf(stderr, "barcuda software GPU: BARCUDA_SOFT_CARD: %s\n", what);
    return false;
}

}  // namespace

// Each process's bytes are a word, so one that is killed while it holds the lock leaves nothing half done.
class Card::Locked {
  public:
    explicit Locked(Card& card) : mutex_(card.file_.change) {
        if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    }
    ~Locked() { pthread_mutex_unlock(&mutex_); }
    Locked(const Locked&) = delete;

  private:
    pthread_mutex_t& mutex_;
};

// The first process makes what is in the file. That needs a lock that ends with the process, and that processes with
// the same open file do not share: fcntl's.
Card::Shared* Card::map(int file) {
    struct flock all {};
    all.l_type = F_WRLCK;
    while (fcntl(file, F_SETLKW, &all) != 0)
        if (errno != EINTR) return nullptr;
    struct stat st;
    void* at = MAP_FAILED;
    if (fstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
        (static_cast<std::size_t>(st.st_size) >= sizeof(Shared) || ftruncate(file, sizeof(Shared)) == 0))
        at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto* shared = at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
    if (shared && shared->format == 0) {
        make(shared->change);
        for (Process& process : shared->processes) make(process.life);
        shared->format = form;
    }
    if (shared && shared->format != form) {
        munmap(at, sizeof(Shared));
        shared = nullptr;
    }
    all.l_type = F_UNLCK;
    fcntl(file, F_SETLK, &all);
    return shared;
}

bool Card::join(int file) {
    if (shared_) return true;
    const char* const path = std::getenv("BARCUDA_SOFT_CARD");
    const bool given = file >= 0;
    if (!given) {
        if (!path || !*path) return false;
        file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0) return complain(strerror(errno));
    }
    shared_ = open(file);
    if (!given) close(file);
    return shared_ || complain("it is no file of cards of this version, or has no room for one more process");
}

Card* Card::open(int file) {
    Shared* const shared = map(file);
    if (!shared) return nullptr;
    auto* const card = new Card(*shared);
    return card->enter() ? card : nullptr;
}

bool Card::has_ended(Process& process) {
    const int r = pthread_mutex_trylock(&process.life);
    if (r == EBUSY) return false;
    if (r == EOWNERDEAD) pthread_mutex_consistent(&process.life);
    return true;  // the caller has the lock, so no other process takes it
}

// A thread holds the mutex, because others may end before their process.
bool Card::enter() {
    const Locked lock(*this);
    std::binary_semaphore entered(0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this, &entered] {
        for (Process& process : file_.processes) {
            if (!has_ended(process)) continue;
            for (auto& used : process.used) used = 0;
            own_ = &process;
            break;
        }
        const bool waits = own_ != nullptr;
        entered.release();
        if (!waits) return;
        for (;;) pause();
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    entered.acquire();
    return own_;
}

// Needs the lock.
std::uint64_t Card::sum(int number) {
    std::uint64_t sum = 0;
    for (Process& process : file_.processes) {
        std::atomic<std::uint64_t>& used = process.used[number];
        if (used == 0) continue;
        if (&process != own_ && has_ended(process)) {
            for (auto& its : process.used) its = 0;
            pthread_mutex_unlock(&process.life);
            continue;
        }
        sum += used;
    }
    return sum;
}

bool Card::take(int number, std::uint64_t bytes, std::uint64_t total) {
    const Locked lock(*this);
    const std::uint64_t now = sum(number);
    if (bytes > total || now > total - bytes) return false;
    own_->used[number] += bytes;
    return true;
}

void Card::give(int number, std::uint64_t bytes) { own_->used[number] -= bytes; }

std::uint64_t Card::used(int number) {
    const Locked lock(*this);
    return sum(number);
}

}  // namespace barcuda::soft

// For a worker, which opens no file by a name: a file in place of BARCUDA_SOFT_CARD. Before cuInit.
extern "C" [[gnu::visibility("default")]] int barcuda_soft_card(int file) { return barcuda::soft::Card::join(file); }
