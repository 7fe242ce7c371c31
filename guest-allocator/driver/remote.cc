// remote.cc: the driver functions that are commands and nothing else, derived from the table: no prototype is typed
// here. An exported function cannot be defined from its type alone in C++, but it can be an ifunc: a name whose address
// is found out when the library is loaded.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"

namespace barcuda {
namespace {

template <Op op, class Prototype> struct Export;
template <Op op, class... P> struct Export<op, CUresult(P...)> {
    static CUresult function(P... arguments) { return command<op>(arguments...); }
};

}  // namespace
}  // namespace barcuda

#define X(name, ...)                                                            \
    CU_RESOLVER decltype(&::name) barcuda_resolve_##name() {                    \
        return &barcuda::Export<barcuda::Op::name, decltype(::name)>::function; \
    }                                                                           \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] decltype(name) name;
BARCUDA_REMOTE(X)
#undef X
