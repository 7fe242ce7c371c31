// SPDX-License-Identifier: Apache-2.0
// filter.h: a list of system calls under construction, for the files of this folder. It wraps libseccomp's lists, by
// names. Calls that this machine's headers do not know are ignored.
#pragma once
#include <linux/filter.h>
#include <seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

// Applies to all threads of the process after load(). The first error of libseccomp is kept.
class Filter {
  public:
    explicit Filter(std::uint32_t otherwise) : list_(seccomp_init(otherwise)) {
        if (!list_) error_ = -ENOMEM;
        else note(seccomp_attr_set(list_, SCMP_FLTATR_CTL_TSYNC, 1));
    }
    ~Filter() { seccomp_release(list_); }
    Filter(const Filter&) = delete;

    // Adds the calls of these names (those that this kernel's headers know), if all of the arguments match.
    void add(std::uint32_t action, std::initializer_list<const char*> names,
             std::initializer_list<scmp_arg_cmp> arguments = {}) {
        for (const char* name : names) {
            const int call = seccomp_syscall_resolve_name(name);
            if (call == __NR_SCMP_ERROR || error_ != 0) continue;
            note(seccomp_rule_add_array(list_, action, call, static_cast<unsigned>(arguments.size()),
                                        arguments.begin()));
        }
    }
    void add(std::uint32_t action, int call) {
        if (error_ == 0) note(seccomp_rule_add_array(list_, action, call, 0, nullptr));
    }
    void allow(std::initializer_list<const char*> names, std::initializer_list<scmp_arg_cmp> arguments = {}) {
        add(SCMP_ACT_ALLOW, names, arguments);
    }
    void deny(std::initializer_list<const char*> names, std::initializer_list<scmp_arg_cmp> arguments = {}) {
        add(SCMP_ACT_TRAP, names, arguments);
    }
    void deny(int call, std::initializer_list<scmp_arg_cmp> arguments) {
        if (error_ == 0)
            note(seccomp_rule_add_array(list_, SCMP_ACT_TRAP, call, static_cast<unsigned>(arguments.size()),
                                        arguments.begin()));
    }
    // 0, or -errno.
    int load() { return error_ != 0 ? error_ : seccomp_load(list_); }
    // In the kernel's format, for a thread that loads it by itself. Empty: failed, and errno says why.
    std::vector<sock_filter> program() const;
    // Reports calls (SCMP_ACT_NOTIFY); a descriptor of this process.
    int listener() const { return seccomp_notify_fd(list_); }

  private:
    void note(int result) {
        if (error_ == 0) error_ = result;
    }
    scmp_filter_ctx list_;
    int error_ = 0;
};

inline scmp_arg_cmp is(unsigned argument, std::uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }
// Of the bits in `of`, exactly `those` are set.
inline scmp_arg_cmp bits(unsigned argument, std::uint64_t of, std::uint64_t those) {
    return {argument, SCMP_CMP_MASKED_EQ, of, those};
}

// ---- calls.cc: the lists

// The calls that the software GPU's worker was seen to make. Signals only to threads of `process`.
void allow_known(Filter& filter, pid_t process);
// What NVIDIA's driver needs after it is open; includes allow_known().
void allow_driver(Filter& filter, const Order& order, pid_t process);
// What the operator has named (--allow-call).
void allow_named(Filter& filter, const Order& order);
// What neither a bridge nor a driver needs: other processes, mounts, administration of the kernel. Calls that the
// operator has named stay allowed.
void deny_to_every_process(Filter& filter, std::uint32_t action, const Order& order);
// Whether no driver needs this call: a worker that makes it has been taken over.
bool ends_a_worker(int call);

}  // namespace barcuda::cage
