/* SPDX-License-Identifier: Apache-2.0
 * status.c: a program that ends with the status that it is told
 */
#include "../programs/check.h"

int main(int count, char** words) {
    EXPECT(count == 2);
    begin();
    return atoi(words[1]);
}
