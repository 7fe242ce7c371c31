// SPDX-License-Identifier: Apache-2.0
// error_log: the log of errors that CUDA keeps for programs: a function that hears of them, and what was said so far.
// What is said, and of which errors, is each driver's own; Barcuda's names the call that failed.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

struct Heard {
    std::vector<std::string> messages;
    bool odd = false;
};
static void CUDA_CB hear(void* data, CUlogLevel level, char* message, size_t length) {
    Heard& heard = *static_cast<Heard*>(data);
    heard.odd = heard.odd || (level != CU_LOG_LEVEL_ERROR && level != CU_LOG_LEVEL_WARNING) || length == 0;
    heard.messages.emplace_back(message, length);
}

int main() {
    FUNCTION(cuLogsRegisterCallback, 12090);
    FUNCTION(cuLogsUnregisterCallback, 12090);
    FUNCTION(cuLogsCurrent, 12090);
    FUNCTION(cuLogsDumpToFile, 12090);
    FUNCTION(cuLogsDumpToMemory, 12090);
    FUNCTION(cuCtxGetLimit, 3010);
    CHECK(cudaFree(nullptr));
    const auto fails = [&] {
        size_t value;
        REQUIRE(p_cuCtxGetLimit(&value, CU_LIMIT_MAX) != CUDA_SUCCESS);
    };
    Heard heard, nobody;
    CUlogsCallbackHandle handle, other;
    DRIVER(p_cuLogsRegisterCallback(hear, &heard, &handle));
    DRIVER(p_cuLogsRegisterCallback(hear, &nobody, &other));
    DRIVER(p_cuLogsUnregisterCallback(other));
    REQUIRE(p_cuLogsRegisterCallback(nullptr, nullptr, &other) == CUDA_ERROR_INVALID_VALUE);
    CUlogIterator before = 0, now = 0;
    DRIVER(p_cuLogsCurrent(&before, 0));
    fails();
    DRIVER(p_cuLogsUnregisterCallback(handle));
    DRIVER(p_cuLogsCurrent(&now, 0));
    const size_t count = heard.messages.size();
    fails();
    REQUIRE(heard.messages.size() == count && nobody.messages.empty() && !heard.odd);

    char text[8192];
    size_t bytes = sizeof text;
    CUlogIterator at = before;
    DRIVER(p_cuLogsDumpToMemory(&at, text, &bytes, 0));
    REQUIRE(bytes < sizeof text && text[bytes] == 0 && strlen(text) == bytes);
    const std::string said = text;
    bytes = sizeof text;
    DRIVER(p_cuLogsDumpToMemory(&at, text, &bytes, 0));  // it has gone on
    REQUIRE(bytes == 0);
    REQUIRE(p_cuLogsDumpToMemory(&at, text, &bytes, 1) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuLogsDumpToFile(nullptr, "/dev/null", 0));
    REQUIRE(p_cuLogsDumpToFile(nullptr, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);

    if (dlsym(RTLD_DEFAULT, "barcuda_guest_library")) {
        REQUIRE(now == before + 1 && count == 1);
        REQUIRE(heard.messages[0].rfind("cuCtxGetLimit: CUDA_ERROR_", 0) == 0);
        REQUIRE(said.find(heard.messages[0]) != std::string::npos);
        // Of more than are kept the newest are there, and it says so.
        at = before;
        for (int i = 0; i < 300; ++i) fails();
        const std::string gone = "(older messages are left out)\n", line = heard.messages[0] + "\n";
        bytes = 4 * line.size() + gone.size() / 2;  // of which it takes the place of one
        DRIVER(p_cuLogsDumpToMemory(&at, text, &bytes, 0));
        REQUIRE(text == gone + line + line + line && bytes == strlen(text));
    }
    return verdict(0);
}
