#include "host-bridge/soft-gpu/ptx/coder.h"
namespace barcuda::soft {
void convert_instructions(Decoders&) {}
}  // namespace barcuda::soft
