// SPDX-License-Identifier: Apache-2.0
// lives.cc: what each row must say, checked once for the table. (Not on Windows: an address of the GPU and a size are
// one type there.)
#include "shm-device/rows/lives.h"

namespace barcuda {

#define X(name, ...)                                                                                                \
    static_assert(says_what_lasts<Op::name>,                                                                        \
                  "the row of " #name " does not say what it leaves behind: trait lasts, or asks if nothing");      \
    static_assert(asks_alone<Op::name>, "the row of " #name " asks, and ends or changes an object");                \
    static_assert(says_its_charge<Op::name>, "the row of " #name                                                    \
                                             " makes device memory and does not say what is charged for it: trait " \
                                             "charges(N), where parameter N is its size, or uncharged");
BARCUDA_ROWS(X)
#undef X

}  // namespace barcuda
