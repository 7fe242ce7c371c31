#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that bring a malloc of their own keep it, whole, also where they use functions that it lacks.
cd "$(dirname "$0")/../.." || exit 1
library=$PWD/${BUILD:-build}/heap/libheap-test.so
command -v gcc > /dev/null || { echo "skipped: gcc is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat > "$scratch/use.h" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int resized;
static void use(void) {
    const size_t n = 1 << 20;
    void *p = 0, *all[] = {malloc(n), calloc(n, 2), aligned_alloc(64, n), strdup("text"), posix_memalign(&p, 64, n) ? 0 : p,
                           reallocarray(malloc(10), 1000, 1000), realloc(malloc(n), 3 * n)};
    for (int i = 0; i < 7; i++) free(all[i]);
    puts(all[5] && all[6] ? "fine" : "wrong");
}
C
# By the other names of glibc's functions, as programs do that count.
cat > "$scratch/names.c" <<'C'
#include "use.h"
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t), __libc_free(void*);
void* malloc(size_t n) { return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return resized++, __libc_realloc(p, n); }
void free(void* p) { __libc_free(p); }
int main(void) { return use(), resized != 2; }
C
# In front of the next one, as tracers do, with a header of its own before each block.
cat > "$scratch/next.c" <<'C'
#include "use.h"
#define NEXT(f) ((__typeof__(&f))dlsym(RTLD_NEXT, #f))
static void* mark(char* p) { return p ? strcpy(p, "a block of mine") + 16 : 0; }
static void check(char* p) { if (strcmp(p, "a block of mine")) abort(); }
void* malloc(size_t n) { return mark(NEXT(malloc)(n + 16)); }
void* calloc(size_t n, size_t m) { return mark(NEXT(calloc)(1, n * m + 16)); }
void* realloc(void* p, size_t n) { return resized++, p ? check((char*)p - 16), mark(NEXT(realloc)((char*)p - 16, n + 16)) : malloc(n); }
void free(void* p) { if (p) check((char*)p - 16), NEXT(free)((char*)p - 16); }
void* aligned_alloc(size_t a, size_t n) { return mark(NEXT(malloc)(n + 16)); }
int posix_memalign(void** p, size_t a, size_t n) { return *p = malloc(n), 0; }
int main(void) { return use(), resized != 2; }
C
for program in names next; do
    gcc -w -O1 -fno-builtin -o "$scratch/$program" "$scratch/$program.c" || exit 1
    for threshold in 0 64K; do
        for heap in auto always; do
            said=$(timeout 60 env LD_PRELOAD="$library" BARCUDA_HEAP=$heap BARCUDA_THRESHOLD=$threshold "$scratch/$program" 2>&1) && [ "$said" = fine ] \
                || { echo "FAILED: $program, $heap, threshold $threshold: $said"; exit 1; }
        done
    done
    echo "ok: $program"
done

# An executable that only takes the address of malloc has an entry of its own by that name, if it is not position-independent: nothing
# of its own stands behind it, and its blocks are the region's. Unless another library does.
cat > "$scratch/entry.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void* (*volatile take)(size_t) = malloc;
    void (*volatile release)(void*) = free;
    void* p = take(1 << 20);
    printf("%d\n", (size_t)p >> 40 == 0x20);  // BARCUDA_DEFAULT_BASE
    release(p);
}
C
cat > "$scratch/library.c" <<'C'
#include <stddef.h>
void *__libc_malloc(size_t), __libc_free(void*);
void* malloc(size_t n) { return __libc_malloc(n); }
void free(void* p) { __libc_free(p); }
C
gcc -w -O1 -fno-builtin -fno-pic -no-pie -o "$scratch/entry" "$scratch/entry.c" && gcc -w -O1 -shared -fPIC -o "$scratch/library.so" "$scratch/library.c" || exit 1
for libraries in "1 $library" "1 $library $scratch/library.so" "0 $scratch/library.so $library"; do
    said=$(timeout 60 env LD_PRELOAD="${libraries#* }" BARCUDA_HEAP=always "$scratch/entry" 2>&1)
    [ "$said" = "${libraries%% *}" ] || { echo "FAILED: an entry, behind it ${libraries#* }: $said"; exit 1; }
done
echo "ok: an entry"
