// SPDX-License-Identifier: Apache-2.0
// emulated_tls.cc: where a thread_local is. mingw's compiler has no access to Windows' own: each one is a call of this
// function, by the name and with the object that GCC's runtime has for targets without thread-local storage. That
// runtime's own finds a thread's variables by a pthread key, which takes a lock and 20 ns, and a launch asks several
// times. This one finds them by a slot of the system's, in the thread's own block (TEB), where Microsoft's header shows
// it.
#include <windows.h>

#include <winternl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "base/os/mutex.h"

namespace barcuda::os {
namespace {

// As the compiler writes it, except the number, which begins as 0.
struct Variable {
    std::size_t bytes, alignment;
    std::atomic<std::size_t> number;
    const void* initial;  // null: zeros
};
static_assert(sizeof(Variable) == 32);

// A thread's variables, by their numbers.
struct Variables {
    std::size_t room;
    void** places() { return reinterpret_cast<void**>(this + 1); }
};

constinit Mutex mutex;
constinit std::size_t numbers = 0;

// A process has few slots that lie in the block itself, and ours is among the first that are taken: a DLL that came so
// late would not start.
constinit std::atomic<DWORD> slot{0};  // of the variables, plus 1; 0: none yet

void begin() {
    const std::lock_guard lock(mutex);
    if (slot.load(std::memory_order_relaxed) != 0) return;
    const DWORD free = TlsAlloc();
    if (free >= std::extent_v<decltype(TEB::TlsSlots)>) std::abort();
    slot.store(free + 1, std::memory_order_release);
}

// The library leaves the process, which may load it again any number of times: the slot must not be lost. What threads
// have of it at this moment is: some hundred bytes each.
[[gnu::destructor(101)]] void end() {
    if (const DWORD taken = slot.exchange(0, std::memory_order_relaxed); taken != 0) TlsFree(taken - 1);
}

Variables* mine(DWORD taken) {
    const std::size_t place = offsetof(TEB, TlsSlots) + (taken - 1) * sizeof(void*);
    Variables* all;
    asm volatile("mov %%gs:(%1), %0" : "=r"(all) : "r"(place));
    return all;
}

// A thread ends. Its destructors, which are those of winpthreads' keys (.CRT$XLF), are over.
void NTAPI release(void*, DWORD reason, void*) {
    const DWORD taken = slot.load(std::memory_order_acquire);
    if (reason != DLL_THREAD_DETACH || taken == 0) return;
    Variables* const all = mine(taken);
    if (!all) return;
    TlsSetValue(taken - 1, nullptr);
    for (std::size_t i = 0; i < all->room; ++i) _aligned_free(all->places()[i]);
    std::free(all);
}
// Windows calls what stands in these sections in the order of their names.
[[gnu::used, gnu::section(".CRT$XLY")]] const PIMAGE_TLS_CALLBACK at_thread_end = release;

std::size_t number_of(Variable& variable) {
    if (const std::size_t number = variable.number.load(std::memory_order_acquire)) return number;
    const std::lock_guard lock(mutex);
    if (variable.number.load(std::memory_order_relaxed) == 0)
        variable.number.store(++numbers, std::memory_order_release);
    return variable.number.load(std::memory_order_relaxed);
}

Variables* with_room(Variables* before, std::size_t number) {
    const std::size_t old = before ? before->room : 0, room = std::max<std::size_t>(number + 16, 2 * old);
    auto* const all = static_cast<Variables*>(std::realloc(before, sizeof(Variables) + room * sizeof(void*)));
    if (!all) std::abort();  // as libgcc's does: the compiler expects an address
    all->room = room;
    std::memset(all->places() + old, 0, (room - old) * sizeof(void*));
    TlsSetValue(slot - 1, all);
    return all;
}

[[gnu::noinline]] void* make(Variable& variable) {
    if (slot.load(std::memory_order_acquire) == 0) begin();
    const std::size_t number = number_of(variable);
    Variables* all = mine(slot);
    if (!all || all->room <= number) all = with_room(all, number);
    void*& place = all->places()[number];
    if (place) return place;
    place = _aligned_malloc(variable.bytes, std::max(variable.alignment, sizeof(void*)));
    if (!place) std::abort();
    if (variable.initial) std::memcpy(place, variable.initial, variable.bytes);
    else std::memset(place, 0, variable.bytes);
    return place;
}

}  // namespace
}  // namespace barcuda::os

extern "C" void* __emutls_get_address(barcuda::os::Variable* variable) {
    using namespace barcuda::os;
    const DWORD taken = slot.load(std::memory_order_acquire);
    const std::size_t number = variable->number.load(std::memory_order_acquire);
    if (taken != 0 && number != 0) [[likely]]
        if (Variables* const all = mine(taken); all && number < all->room) [[likely]]
            if (void* const place = all->places()[number]) return place;
    return make(*variable);
}
