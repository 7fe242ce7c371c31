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

# jemalloc and tcmalloc, with their functions beside malloc's, and their operators of C++, whose blocks they free by themselves.
cat > "$scratch/allocator.cc" <<'C'
#include <malloc.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>
extern "C" {
#define WEAK __attribute__((weak))
void *mallocx(size_t, int) WEAK, *rallocx(void*, size_t, int) WEAK, *tc_realloc(void*, size_t) WEAK, *tc_malloc(size_t) WEAK;
void sdallocx(void*, size_t, int) WEAK, dallocx(void*, int) WEAK, tc_free(void*) WEAK, tc_cfree(void*) WEAK, tc_free_sized(void*, size_t) WEAK;
size_t sallocx(const void*, int) WEAK, xallocx(void*, size_t, size_t, int) WEAK, tc_malloc_size(void*) WEAK;
}
struct alignas(64) Line { char bytes[100000]; };
struct alignas(8192) Pages { char bytes[1 << 20]; };
constexpr size_t n = 1 << 20;
char* filled(void* p, char with = 7) { return static_cast<char*>(memset(p, with, n)); }
bool holds(const char* p, size_t bytes = n) { return p[0] == 7 && p[bytes - 1] == 7; }
#define CHECK(what) ((what) ? (void)0 : (printf("line %d: %s does not hold\n", __LINE__, #what), exit(1)))
int main() {
    const bool in_region = (size_t)std::unique_ptr<void, void (*)(void*)>(malloc(n), free).get() >> 40 == 0x20;  // BARCUDA_DEFAULT_BASE
    for (int i = 0; i < 100; ++i) {
        Line *volatile line = new Line, *volatile lines = new Line[5], *volatile other = new (std::nothrow) Line;  // volatile: not left out
        Pages* volatile pages = new Pages;
        char* volatile bytes = new char[n];
        delete line, delete[] lines, delete other, delete pages, delete[] bytes;
        std::vector<Line> all(3);
        all.resize(9);
        free(aligned_alloc(64, n)), free(memalign(4096, n));
        void* p = nullptr;
        CHECK(posix_memalign(&p, 64, n) == 0), free(p);
    }
    if (mallocx) {
        for (int i = 0; i < 10; ++i) {
            sdallocx(filled(malloc(n)), n, 0), dallocx(filled(malloc(n)), 0), free(filled(mallocx(n, 0))), sdallocx(filled(mallocx(n, 6)), n, 6);
            char* p = filled(malloc(n));
            CHECK(sallocx(p, 0) >= n && xallocx(p, 2 * n, 0, 0) >= n);
            CHECK(holds(p = static_cast<char*>(rallocx(p, 3 * n, 0x40))) && p[3 * n - 1] == 0);
            CHECK(holds(p = static_cast<char*>(rallocx(p, n / 2, 12)), n / 2) && (size_t)p % 4096 == 0);
            free(p);
        }
    }
    if (tc_malloc) {
        for (int i = 0; i < 10; ++i) {
            tc_free(filled(malloc(n))), tc_cfree(filled(calloc(n, 1))), tc_free_sized(filled(malloc(n)), n), free(filled(tc_malloc(n)));
            char* p = filled(malloc(n));
            CHECK(tc_malloc_size(p) >= n && holds(p = static_cast<char*>(tc_realloc(p, 3 * n))));
            tc_free(p);
        }
    }
    if (!mallocx && !tc_malloc && sdallocx) {  // ours alone: they are free and its kin
        sdallocx(filled(malloc(n)), n, 0), tc_free(filled(malloc(n))), dallocx(malloc(10), 0), tc_free(nullptr);
        char* p = static_cast<char*>(rallocx(filled(malloc(n)), 2 * n, 12));
        CHECK(holds(p) && (size_t)p % 4096 == 0);
        free(p);
    }
    printf("fine, %s\n", in_region ? "in the region" : "elsewhere");
}
C
g++ -w -std=c++17 -O1 -fno-builtin -o "$scratch/plain" "$scratch/allocator.cc" || exit 1
for allocator in none libjemalloc.so.2 libtcmalloc_minimal.so.4; do
    file=
    if [ "$allocator" != none ]; then
        file=$(ldconfig -p | sed -n "s|.*$allocator .*x86-64.* => ||p" | head -n 1)
        [ -n "$file" ] || { echo "not tried: $allocator is not installed (libjemalloc2, libtcmalloc-minimal4)"; continue; }
        g++ -w -std=c++17 -O1 -fno-builtin -o "$scratch/linked" "$scratch/allocator.cc" -Wl,--no-as-needed "$file" || exit 1
    fi
    for threshold in 0 64K; do
        for how in "$scratch/plain" ${file:+"$scratch/linked"}; do
            preload=$library
            [ "$how" = "$scratch/plain" ] && preload=$library${file:+:$file}
            said=$(timeout 60 env LD_PRELOAD="$preload" BARCUDA_HEAP=always BARCUDA_THRESHOLD=$threshold "$how" 2>&1)
            [ "$said" = "fine, in the region" ] || { echo "FAILED: $allocator, ${how##*/}, threshold $threshold: $said"; exit 1; }
        done
    done
    echo "ok: $allocator"
done
