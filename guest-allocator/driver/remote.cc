// SPDX-License-Identifier: Apache-2.0
// remote.cc: the driver functions that are only commands (call and post in their rows), derived from the table.
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/exports.h"

namespace barcuda::guest {
namespace {

template <Op op, class Prototype> struct Export;
template <Op op, class... P> struct Export<op, CUresult(P...)> {
    static CUresult function(P... arguments) { return command<op>(arguments...); }
};

}  // namespace
}  // namespace barcuda::guest

#define EXPORT(name) \
    EXPORT_AS(name, decltype(::name), barcuda::guest::Export<barcuda::Op::name, decltype(::name)>::function)
BARCUDA_DRIVER_ROWS(EXPORT_ROW)
