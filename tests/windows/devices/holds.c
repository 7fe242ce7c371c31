/* SPDX-License-Identifier: Apache-2.0
 * holds.c FILE...: opens files so that no other process can, until its input ends
 */
#include <stdio.h>
#include <windows.h>

int main(int argc, char** argv) {
    int i;
    for (i = 1; i < argc; ++i)
        if (CreateFileA(argv[i], GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL) ==
            INVALID_HANDLE_VALUE) {
            printf("%s: error %lu\n", argv[i], GetLastError());
            return 1;
        }
    printf("running\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
