#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void atomic_instructions(Decoders&) {}
}  // namespace barcuda::soft
