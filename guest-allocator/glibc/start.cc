// SPDX-License-Identifier: Apache-2.0
// start.cc: how a program starts under a glibc of any age (stubs.py). Since 2.34 glibc runs a program's constructors.
// Before, the program contained a function for that, which newer glibcs still run in place of their own.
#include <cstddef>

extern "C" {
using Function = void(int, char**, char**);
extern Function* __init_array_start[] __attribute__((visibility("hidden")));  // the linker's
extern Function* __init_array_end[] __attribute__((visibility("hidden")));
void _init();

int libc_start_main(int (*)(int, char**, char**), int, char**, Function*, void (*)(), void (*)(), void*);
asm(".symver libc_start_main, __libc_start_main@GLIBC_2.2.5");

// Those of the loader's account (DT_PREINIT_ARRAY, DT_FINI_ARRAY) it runs itself, always.
static void construct(int count, char** arguments, char** environment) {
    _init();
    // cppcheck-suppress comparePointers
    const std::size_t n = __init_array_end - __init_array_start;
    for (std::size_t i = 0; i < n; ++i) __init_array_start[i](count, arguments, environment);
}

// Called by what the compiler puts in front of main.
int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments, Function*, void (*)(),
                      void (*at_end)(), void* stack) {
    return libc_start_main(main, count, arguments, construct, nullptr, at_end, stack);
}
}
