// SPDX-License-Identifier: Apache-2.0
// watched.h: every store to some pages, at the moment when it happens. The pages are read-only: a store faults, is
// carried out alone (the processor's trap flag), and the observer is called before the next instruction. So a test sees
// what another process could have seen, in every order that is possible, and depends on no timing. One thread.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <csignal>
#include <cstdlib>
#include <functional>

namespace barcuda::test {

class Watched {
  public:
    // `stored` is called with the address of each store to [pages, pages + bytes), which are whole pages.
    Watched(void* pages, std::size_t bytes, std::function<void(void*)> stored)
        : pages_(static_cast<char*>(pages)), bytes_(bytes), stored_(std::move(stored)) {
        current_ = this;
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = faulted;
        sigaction(SIGSEGV, &action, &before_fault_);
        action.sa_sigaction = stepped;
        sigaction(SIGTRAP, &action, &before_step_);
        protect(PROT_READ);
    }
    ~Watched() {
        protect(PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &before_fault_, nullptr);
        sigaction(SIGTRAP, &before_step_, nullptr);
        current_ = nullptr;
    }
    Watched(const Watched&) = delete;

  private:
    static constexpr greg_t trap_flag = 0x100;  // of EFLAGS

    static void faulted(int, siginfo_t* info, void* context) {
        Watched& w = *current_;
        char* at = static_cast<char*>(info->si_addr);
        if (at < w.pages_ || at >= w.pages_ + w.bytes_) {  // a true fault: once more, without us
            sigaction(SIGSEGV, &w.before_fault_, nullptr);
            return;
        }
        w.at_ = at;
        w.protect(PROT_READ | PROT_WRITE);
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= trap_flag;
    }
    static void stepped(int, siginfo_t*, void* context) {
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
        current_->protect(PROT_READ);
        current_->stored_(current_->at_);
    }
    void protect(int how) {
        if (mprotect(pages_, bytes_, how) != 0) std::abort();
    }

    static inline Watched* current_ = nullptr;
    char* const pages_;
    const std::size_t bytes_;
    const std::function<void(void*)> stored_;
    char* at_ = nullptr;
    struct sigaction before_fault_ {
    }, before_step_{};
};

}  // namespace barcuda::test
