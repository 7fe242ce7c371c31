/* SPDX-License-Identifier: Apache-2.0
 * reloads.c driver|nvml: a program that loads nvcuda.dll by itself, lets it go and loads it again: many times before it
 * asks for a device, and then each time with memory and a function of the program's that the GPU may call. nvml:
 * nvml.dll has found the region first.
 */
#include <windows.h>

#include "../programs/check.h"

static HMODULE driver;

static void* named(const char* name) {
    void* const found = (void*)GetProcAddress(driver, name);
    if (!found) printf("there is no %s\n", name);
    EXPECT(found != NULL);
    return found;
}
#define TEXT_OF(name) #name
#define LOADED(name) ((__typeof__(&name))named(TEXT_OF(name)))
#define CALL(name, ...) done(LOADED(name)(__VA_ARGS__), #name)
static void done(CUresult r, const char* name) {
    if (r != CUDA_SUCCESS) printf("%s: %d\n", name, r);
    EXPECT(r == CUDA_SUCCESS);
}

static void load(void) {
    driver = LoadLibraryA("nvcuda.dll");
    EXPECT(driver != NULL);
}

static void run(LPTHREAD_START_ROUTINE function, void* argument) {
    const HANDLE thread = CreateThread(NULL, 0, function, argument, 0, NULL);
    EXPECT(thread && WaitForSingleObject(thread, INFINITE) == WAIT_OBJECT_0);
    CloseHandle(thread);
}

/* Fails: there is no such region. */
static DWORD WINAPI init_in_vain(void* none) {
    (void)none;
    EXPECT(LOADED(cuInit)(0) != CUDA_SUCCESS);
    EXPECT(LOADED(cuCtxSetCurrent)(NULL) == CUDA_ERROR_NOT_INITIALIZED);
    return 0;
}

static void load_in_vain(void) {
    load();
    run(init_in_vain, NULL);
    EXPECT(FreeLibrary(driver) && GetModuleHandleA("nvcuda.dll") == NULL);
}

static void CUDA_CB count(void* counter) { InterlockedIncrement((LONG*)counter); }

/* The library may count a thread that has variables of its own as a user of it: so it is one that ends which asks. */
static DWORD WINAPI use(void* number) {
    static LONG counter;
    const unsigned value = (unsigned)(ULONG_PTR)number;
    const LONG before = counter;
    CUDA_HOST_NODE_PARAMS host = {count, &counter};
    CUdevice device;
    CUcontext context;
    CUdeviceptr p;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec launched;
    unsigned word = 0;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc, &p, sizeof word);
    CALL(cuMemsetD32, p, value, 1);
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddHostNode, &node, graph, NULL, 0, &host);
    CALL(cuGraphInstantiateWithFlags, &launched, graph, 0);
    CALL(cuGraphLaunch, launched, NULL);
    CALL(cuCtxSynchronize, );
    CALL(cuMemcpyDtoH, &word, p, sizeof word);
    EXPECT(word == value && counter == before + 1);
    return 0;
}

int main(int argc, char** argv) {
    enum { slots = 70 }; /* more than a process has of those that a library of ours takes one of */
    int i;
    char region[300] = "BARCUDA_REGION=";
    EXPECT(getenv("BARCUDA_REGION") && strlen(getenv("BARCUDA_REGION")) < 200);
    strcat(region, getenv("BARCUDA_REGION"));
    _putenv("BARCUDA_REGION=Z:\\nowhere");
    for (i = 0; i < slots; ++i) load_in_vain();
    _putenv(region);
    if (argc > 1 && strcmp(argv[1], "nvml") == 0) {
        const HMODULE nvml = LoadLibraryA("nvml.dll");
        EXPECT(nvml && ((int (*)(void))(void*)GetProcAddress(nvml, "nvmlInit_v2"))() == 0);
    }
    for (i = 1; i <= 3; ++i) {
        load();
        run(use, (void*)(ULONG_PTR)i);
        EXPECT(FreeLibrary(driver));
    }
    load();
    run(use, (void*)(ULONG_PTR)i);
    return passed();
}
