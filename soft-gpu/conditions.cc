// SPDX-License-Identifier: Apache-2.0
#include "soft-gpu/conditions.h"

namespace barcuda::soft {

Conditions& conditions() {
    static auto* const all = new Conditions;  // never destroyed, because graphs in static variables would outlive it
    return *all;
}

std::uint64_t Conditions::add() {
    std::lock_guard lock(mutex_);
    values_[++last_] = 0;
    return last_;
}
void Conditions::remove(std::uint64_t handle) {
    std::lock_guard lock(mutex_);
    values_.erase(handle);
}
bool Conditions::set(std::uint64_t handle, unsigned value) {
    std::lock_guard lock(mutex_);
    const auto at = values_.find(handle);
    if (at == values_.end()) return false;
    at->second = value;
    return true;
}
unsigned Conditions::get(std::uint64_t handle) const {
    std::lock_guard lock(mutex_);
    const auto at = values_.find(handle);
    return at == values_.end() ? 0 : at->second;
}

}  // namespace barcuda::soft
