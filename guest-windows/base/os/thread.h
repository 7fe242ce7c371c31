// SPDX-License-Identifier: Apache-2.0
// thread.h: a thread as its system sees it. Windows has neither cancellation nor signals that interrupt a thread.
#pragma once

namespace barcuda::os {

struct Uncancelled {
    Uncancelled() noexcept {}
    Uncancelled(const Uncancelled&) = delete;
};
struct SignalsBlocked {
    SignalsBlocked() noexcept {}
    SignalsBlocked(const SignalsBlocked&) = delete;
};

}  // namespace barcuda::os
