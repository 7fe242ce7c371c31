// SPDX-License-Identifier: Apache-2.0
// types.cc: each struct that crosses the region, or that a program gives to a library of ours. It is only compiled,
// with what a debugger wants to know of all types, used or not: sizes, members, offsets. tests/windows/test_rows.py
#include <cuda.h>

#include "shm-device/cuda/nvml.h"
#include "shm-device/layout.h"
#include "shm-device/queue/packet.h"
#include "shm-device/queue/virtqueue.h"
#include "shm-device/rows/identity.h"
#include "shm-device/rows/library_commands.h"
#include "shm-device/rows/nvml_rows.h"

#include <driver_types.h>
