// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/rehearsal.h"

#include <cstddef>
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda {

void rehearse(const Driver& driver) {
    alignas(BARCUDA_PAGE) static std::byte page[BARCUDA_PAGE];  // whole: what is registered, kernels could reach
    if (driver.cuMemHostRegister_v2(page, sizeof page, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) !=
        CUDA_SUCCESS)
        return;
    const auto at = reinterpret_cast<CUdeviceptr>(page);  // as extents: the same address on both sides
    const std::uint32_t word = 0;
    driver.cuMemsetD32Async(at, 0, 1, nullptr);
    driver.cuMemcpyHtoDAsync_v2(at, &word, sizeof word, nullptr);
    CUevent event = nullptr;
    if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        driver.cuEventRecord(event, nullptr);
        driver.cuEventQuery(event);
    }
    driver.cuStreamWriteValue64_v2(nullptr, at, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
    driver.cuStreamQuery(nullptr);
    driver.cuStreamSynchronize(nullptr);
    if (event) driver.cuEventDestroy_v2(event);
    driver.cuMemHostUnregister(page);
}

}  // namespace barcuda
