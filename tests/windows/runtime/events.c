/* SPDX-License-Identifier: Apache-2.0
 * events.c: events with and without a time
 */
#include "runtime.h"

int main(void) {
    float milliseconds = -1;
    cudaEvent_t begun, ended, untimed;
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreateWithFlags(&ended, cudaEventBlockingSync));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    EXPECT(cudaEventElapsedTime(&milliseconds, begun, ended) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventQuery(begun));
    CHECK(cudaEventRecord(begun, NULL));
    CHECK(cudaEventRecordWithFlags(ended, NULL, cudaEventRecordDefault));
    CHECK(cudaEventRecord(untimed, NULL));
    CHECK(cudaEventSynchronize(ended));
    CHECK(cudaEventElapsedTime(&milliseconds, begun, ended));
    EXPECT(milliseconds >= 0);
    CHECK(cudaEventSynchronize(untimed));
    EXPECT(cudaEventElapsedTime(&milliseconds, begun, untimed) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(begun));
    CHECK(cudaEventDestroy(ended));
    CHECK(cudaEventDestroy(untimed));
    return passed();
}
