// SPDX-License-Identifier: Apache-2.0
// link.cc: linking device code. Inputs cross by way of the region, and so does the finished image, which is kept here
// until the program ends the link.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/driver/compiler_log.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/module.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest {
namespace {

struct Link {
    std::atomic<void*> image;  // finished
    std::atomic<CompilerLogs*> logs;
};
IdTable<Link> links;  // by the state's id

// The program's log buffers live as long as the link.
CUresult logged(CUlinkState state, CUresult r) {
    Link* link = links.of(state);
    if (CompilerLogs* logs = link ? link->logs.load(std::memory_order_acquire) : nullptr) logs->fetch(state);
    return r;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
    if (!state || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    const CompilerLogs logs(count, options, values);
    const CUresult r = command<Op::link_create>(state, logs.wanted());
    if (r != CUDA_SUCCESS || logs.wanted() == ext::no_logs) return r;
    if (Link* link = links.of(*state)) delete link->logs.exchange(new (std::nothrow) CompilerLogs(logs));
    return r;
}

CU cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name, unsigned,
                    CUjit_option*, void**) {
    if (!data || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const SentImage sent(Selection({data, bytes}));  // all of it: what a link needs, its driver knows
    if (sent.error != CUDA_SUCCESS) return sent.error;
    return logged(state, command<Op::link_add>(state, type, sent.where(), bytes, name ? name : ""));
}

CU cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned count, CUjit_option* options,
                    void** values) {
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    std::size_t bytes = 0;
    char* text = read_file(path, bytes);
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r =
        cuLinkAddData_v2(state, type, text, type == CU_JIT_INPUT_PTX ? bytes + 1 : bytes, path, count, options, values);
    free(text);
    return r;
}

CU cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    std::size_t size = 0;
    if (CUresult r = logged(state, command<Op::link_complete>(state, &size)); r != CUDA_SUCCESS) return r;
    void* staged = heap::staging_alloc(size + 1);
    void* kept = malloc(size + 1);
    Link* place = links.of(state);
    CUresult r = staged && kept && place ? command<Op::link_fetch>(state, staged, size) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        memcpy(kept, staged, size);
        static_cast<char*>(kept)[size] = 0;
        free(place->image.exchange(kept));
        *image = kept;
        if (bytes) *bytes = size;
    } else {
        free(kept);
    }
    if (staged) heap::staging_free(staged);
    return r;
}

CU cuLinkDestroy(CUlinkState state) {
    if (Link* link = links.of(state)) {
        free(link->image.exchange(nullptr));
        delete link->logs.exchange(nullptr);
    }
    return command<Op::cuLinkDestroy>(state);
}
