// SPDX-License-Identifier: Apache-2.0
// texture_reference.cc: the colour of a texture reference's border, which is four numbers to the driver and one value
// in a command.
#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {

CUresult border_color(CUtexref reference, Color* color) {
    const auto ask = driver().cuTexRefGetBorderColor;
    return ask ? ask(color->channel, reference) : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult set_border_color(CUtexref reference, Color color) {
    const auto set = driver().cuTexRefSetBorderColor;
    return set ? set(reference, color.channel) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace barcuda::ext
