#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void texture_instructions(Decoders&) {}
}  // namespace barcuda::soft
