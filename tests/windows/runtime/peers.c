/* SPDX-License-Identifier: Apache-2.0
 * peers.c: what a device says of others and of itself as its peer
 */
#include "runtime.h"

int main(void) {
    int can = -1, value = -1;
    int current = 9;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 0));
    printf("itself %d\n", can);
    EXPECT(cudaDeviceCanAccessPeer(&can, 0, 99) == cudaErrorInvalidDevice);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessUnsupported);
    printf("%s\n", cudaGetErrorName(cudaDeviceDisablePeerAccess(0)));
    printf("%s\n", cudaGetErrorName(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0)));
    CHECK(cudaGetDevice(&current));
    EXPECT(current == 0);
    CHECK(cudaSetDevice(0));
    return passed();
}
