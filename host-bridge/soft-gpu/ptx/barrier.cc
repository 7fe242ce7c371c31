#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void barrier_instructions(Decoders&) {}
}  // namespace barcuda::soft
