// SPDX-License-Identifier: Apache-2.0
// compiler_log: what the compiler of PTX says about a load or a link reaches the buffers that the program gives it.
#include <string.h>

#include "driver.h"

static const char broken[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n    ret }\n";
static const char good[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n";

struct Logs {
    char error[1000], info[1000];
    CUjit_option options[5] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER,
                               CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void* values[5];
    explicit Logs(size_t room, size_t verbose = 0) {
        memset(error, '#', sizeof error), memset(info, '#', sizeof info);
        void* v[] = {(void*)room, error, info, (void*)room, (void*)verbose};
        memcpy(values, v, sizeof v);
    }
    size_t errors() const { return (unsigned)(size_t)values[0]; }
    size_t infos() const { return (unsigned)(size_t)values[3]; }
};

int main() {
    const auto load = entry<decltype(&cuModuleLoadDataEx)>("cuModuleLoadDataEx");
    const auto unload = entry<decltype(&cuModuleUnload)>("cuModuleUnload");
    const auto load_library = entry<decltype(&cuLibraryLoadData)>("cuLibraryLoadData");
    const auto module_of = entry<decltype(&cuLibraryGetModule)>("cuLibraryGetModule");
    const auto create = entry<decltype(&cuLinkCreate)>("cuLinkCreate");
    const auto add = entry<decltype(&cuLinkAddData)>("cuLinkAddData");
    const auto complete = entry<decltype(&cuLinkComplete)>("cuLinkComplete");
    const auto destroy = entry<decltype(&cuLinkDestroy)>("cuLinkDestroy");
    CHECK(cudaFree(nullptr));
    CUmodule module;
    CUlibrary library;
    CUlinkState link;
    void* image;
    size_t bytes;

    Logs enough(1000);  // a line, and why
    REQUIRE(load(&module, broken, 5, enough.options, enough.values) == CUDA_ERROR_INVALID_PTX);
    REQUIRE(strstr(enough.error, "line 6") && enough.errors() == strlen(enough.error));
    printf("%s\n", enough.error);

    Logs small(12);  // as much as there is room for, and nothing behind it; its size is then all of the room
    REQUIRE(load(&module, broken, 5, small.options, small.values) == CUDA_ERROR_INVALID_PTX);
    REQUIRE(strlen(small.error) == 11 && small.error[12] == '#' && strncmp(small.error, enough.error, 11) == 0);
    REQUIRE(small.errors() == 12);

    Logs none(0);  // (a GPU's driver writes a NUL all the same)
    REQUIRE(load(&module, broken, 5, none.options, none.values) == CUDA_ERROR_INVALID_PTX);
    REQUIRE(none.errors() == 0 && none.error[1] == '#');

    Logs fine(1000, 1);  // no error: an empty log of errors, and about the kernel as much as there is to say at a load
    DRIVER(load(&module, good, 5, fine.options, fine.values));
    REQUIRE(fine.error[0] == 0 && fine.errors() == 0 && fine.infos() == strlen(fine.info));
    DRIVER(unload(module));

    Logs whole(1000);
    REQUIRE(load_library(&library, broken, whole.options, whole.values, 5, nullptr, nullptr, 0) != CUDA_SUCCESS ||
            module_of(&module, library) != CUDA_SUCCESS);  // CUDA may compile it at first use

    Logs linked(1000);
    DRIVER(create(5, linked.options, linked.values, &link));
    CUresult r = add(link, CU_JIT_INPUT_PTX, (void*)broken, sizeof broken, "broken", 0, nullptr, nullptr);
    if (r == CUDA_SUCCESS) r = complete(link, &image, &bytes);
    REQUIRE(r == CUDA_ERROR_INVALID_PTX && strstr(linked.error, "line 6"));
    DRIVER(destroy(link));

    Logs again(1000, 1);  // the buffers of one link are not another's
    DRIVER(create(5, again.options, again.values, &link));
    DRIVER(add(link, CU_JIT_INPUT_PTX, (void*)good, sizeof good, "good", 0, nullptr, nullptr));
    DRIVER(complete(link, &image, &bytes));
    REQUIRE(again.error[0] == 0 && again.errors() == 0);
    REQUIRE(strstr(again.info, "'k'") && again.infos() == strlen(again.info));
    DRIVER(destroy(link));

    Logs brief(12, 1);
    DRIVER(create(5, brief.options, brief.values, &link));
    DRIVER(add(link, CU_JIT_INPUT_PTX, (void*)good, sizeof good, "good", 0, nullptr, nullptr));
    DRIVER(complete(link, &image, &bytes));
    REQUIRE(brief.info[11] == 0 && strlen(brief.info) == 11 && brief.infos() == 12);
    DRIVER(destroy(link));
    printf("PASSED\n");
    return 0;
}
