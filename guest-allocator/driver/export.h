// export.h: how a driver function of the guest is spelled. Everything else in the library is hidden.
#pragma once
#include <cuda.h>

#define CU extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI
