// SPDX-License-Identifier: Apache-2.0
// remote.cc: the driver functions that are only commands (call and post in their rows), derived from the table: no
// prototype is typed here. In C++ an exported function cannot be defined from its type alone, but it can be an ifunc: a
// name whose address is found when the library is loaded.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"

namespace barcuda::guest {
namespace {

template <Op op, class Prototype> struct Export;
template <Op op, class... P> struct Export<op, CUresult(P...)> {
    static CUresult function(P... arguments) { return command<op>(arguments...); }
};

}  // namespace
}  // namespace barcuda::guest

#define EXPORT_call(name)                                                              \
    CU_RESOLVER decltype(&::name) barcuda_resolve_##name() {                           \
        return &barcuda::guest::Export<barcuda::Op::name, decltype(::name)>::function; \
    }                                                                                  \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] decltype(name) name;
#define EXPORT_post(name) EXPORT_call(name)
#define EXPORT_inner_call(name)  // these are written by hand
#define EXPORT_inner_post(name)
#define EXPORT_guest(name)
#define X(name, how, ...) EXPORT_##how(name)
BARCUDA_DRIVER_ROWS(X)
#undef X
