// SPDX-License-Identifier: Apache-2.0
// check.h: what the programs share: a CUDA call that fails ends the program and says where.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        cudaError_t error_ = (call);                                                                       \
        if (error_ != cudaSuccess) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_), \
                    (int)error_);                                                                          \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#define REQUIRE(what)                                                               \
    do {                                                                            \
        if (!(what)) {                                                              \
            printf("FAILED: %s:%d: %s does not hold\n", __FILE__, __LINE__, #what); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static inline int verdict(long wrong) {
    if (wrong) printf("FAILED: %ld wrong\n", wrong);
    else printf("PASSED\n");
    return wrong != 0;
}
