/* SPDX-License-Identifier: Apache-2.0
 * expect.h: EXPECT(condition), for the programs of every library. A condition that does not hold ends the program.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition) expect(condition, #condition, __LINE__)
static inline void expect(int is, const char* condition, int line) {
    if (is) return;
    printf("line %d: not so: %s\n", line, condition);
    exit(1);
}
