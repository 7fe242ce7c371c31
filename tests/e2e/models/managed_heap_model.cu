// SPDX-License-Identifier: Apache-2.0
// managed_heap_model: managed_model without __managed__ variables, which no driver moves from the GPU.
#define WITHOUT_VARIABLES
#include "managed_model.cu"
