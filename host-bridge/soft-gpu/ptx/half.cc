#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void half_instructions(Decoders&) {}
}  // namespace barcuda::soft
