#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void warp_instructions(Decoders&) {}
}  // namespace barcuda::soft
