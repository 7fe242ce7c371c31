/* SPDX-License-Identifier: Apache-2.0
 * names.c: names.exe DLL NAME...: the names that the DLL does not export, one a line
 */
#include <stdio.h>
#include <windows.h>

int main(int argc, char** argv) {
    const HMODULE dll = argc > 1 ? LoadLibraryA(argv[1]) : NULL;
    if (!dll) return 1;
    for (int i = 2; i < argc; ++i)
        if (!GetProcAddress(dll, argv[i])) printf("%s\n", argv[i]);
    return 0;
}
