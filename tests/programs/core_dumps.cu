// SPDX-License-Identifier: Apache-2.0
// core_dumps: what is asked and set about dumps of the GPU: kinds of values, what is kept, for the program and for a
// context.
#include <cstring>

#include "driver.h"

#define FUNCTION(name) static const auto p_##name = entry<decltype(&name)>(#name, 12010)

int main() {
    FUNCTION(cuCoredumpGetAttribute);
    FUNCTION(cuCoredumpGetAttributeGlobal);
    FUNCTION(cuCoredumpSetAttribute);
    FUNCTION(cuCoredumpSetAttributeGlobal);
    char text[1024] = {};
    bool on = true;
    size_t size = sizeof on;
    DRIVER(p_cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
    REQUIRE(!on);
    CHECK(cudaFree(nullptr));
    // Its size, and no other.
    for (const bool program : {false, true}) {
        const auto get = program ? p_cuCoredumpGetAttributeGlobal : p_cuCoredumpGetAttribute;
        const auto set = program ? p_cuCoredumpSetAttributeGlobal : p_cuCoredumpSetAttribute;
        const size_t sizes[] = {0, 1, 1, 1, program ? 1u : 0u, 1024, program ? 1024u : 0u, 4, 0};
        for (int a = 1; a <= 8; ++a) {
            const auto attribute = (CUcoredumpSettings)a;
            size = 0;
            REQUIRE((get(attribute, nullptr, &size) == CUDA_SUCCESS) == (sizes[a] != 0) && size == sizes[a]);
            size = 3;
            REQUIRE((get(attribute, text, &size) == CUDA_SUCCESS) == (sizes[a] == 1024));
        }
        on = false;
        size = sizeof on;
        DRIVER(get(CU_COREDUMP_TRIGGER_HOST, &on, &size));
        REQUIRE(on);
        on = false;
        DRIVER(set(CU_COREDUMP_TRIGGER_HOST, &on, &size));
        unsigned flags = 0;
        size = sizeof flags;
        DRIVER(get(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
        REQUIRE(flags == CU_COREDUMP_SKIP_ABORT);
        flags = 0;
        DRIVER(set(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
        char name[] = "somewhere";
        name[0] = program ? 'S' : 's';
        size = sizeof name;
        DRIVER(set(CU_COREDUMP_FILE, name, &size));
        // A dump that cannot be written is refused here, not at the fault.
        on = true;
        size = sizeof on;
        const CUresult r = set(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size);
        REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED);
        bool now = !on;
        DRIVER(get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &now, &size));
        REQUIRE(now == (r == CUDA_SUCCESS));
        on = false;
        DRIVER(set(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
    }
    size = sizeof text;
    DRIVER(p_cuCoredumpGetAttribute(CU_COREDUMP_FILE, text, &size));
    REQUIRE(strcmp(text, "somewhere") == 0);
    DRIVER(p_cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, text, &size));
    REQUIRE(strcmp(text, "Somewhere") == 0);
    printf("PASSED\n");
    return 0;
}
