// SPDX-License-Identifier: Apache-2.0
// caught.h: what a function throws, as a failure: where an exception would end the process, as in a thread.
#pragma once
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/failure.h"

namespace barcuda {

inline Failure said(const std::exception& e) noexcept {
    try {
        return *e.what() ? e.what() : "unknown";
    } catch (...) { return "unknown"; }
}

// f() returns a Failure.
template <class F> Failure caught(F&& f) noexcept {
    try {
        return std::forward<F>(f)();
    } catch (const std::bad_alloc&) {
        return "no memory";  // short enough to need none
    } catch (const std::system_error& e) {
        if (e.code() == std::errc::resource_unavailable_try_again) return "no new thread";
        return said(e);
    } catch (const std::exception& e) { return said(e); } catch (...) {
        return "unknown";
    }
}

}  // namespace barcuda
