/* SPDX-License-Identifier: Apache-2.0
 * both.c driver|nvml: a process that uses both libraries, the named one first; prints how often it has mapped a region
 */
#include <windows.h>

#include "../programs/check.h"

typedef int (*Function)(void);

static void begin_nvml(HMODULE nvml) {
    const int status = ((Function)(void*)GetProcAddress(nvml, "nvmlInit_v2"))();
    if (status == 0) return;
    printf("nvmlInit_v2: %d\n", status);
    exit(1);
}

/* Mappings of a size that only regions have. */
static int mapped(void) {
    MEMORY_BASIC_INFORMATION found;
    char* at;
    int count = 0;
    for (at = NULL; VirtualQuery(at, &found, sizeof found); at = (char*)found.BaseAddress + found.RegionSize)
        count += found.State == MEM_COMMIT && found.Type == MEM_MAPPED && found.RegionSize >= (size_t)256 << 20;
    return count;
}

int main(int argc, char** argv) {
    const int nvml_first = argc > 1 && strcmp(argv[1], "nvml") == 0;
    const HMODULE nvml = LoadLibraryA("nvml.dll");
    CUdeviceptr p;
    unsigned word = 0;
    EXPECT(nvml != NULL);
    if (nvml_first) begin_nvml(nvml);
    begin();
    if (!nvml_first) begin_nvml(nvml);
    CHECK(cuMemAlloc(&p, sizeof word));
    CHECK(cuMemsetD32(p, 7, 1));
    CHECK(((Function)(void*)GetProcAddress(nvml, "nvmlShutdown"))() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    FreeLibrary(nvml);
    CHECK(cuMemcpyDtoH(&word, p, sizeof word));
    EXPECT(word == 7);
    printf("%d mapped\n", mapped());
    return 0;
}
