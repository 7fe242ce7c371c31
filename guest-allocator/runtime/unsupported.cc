// SPDX-License-Identifier: Apache-2.0
// unsupported.cc: names that programs may import and that this library does not implement. They must exist, or such a
// program does not load; the first call reports the name, and all fail.
//
// The list is the rest of libcudart.so.13's exports (tests/unit/runtime/runtime_exports_test.cc compares), and names of
// older toolkits. <cuda_runtime_api.h> is not included on purpose: these functions take any arguments, and read none.
#include "guest-allocator/runtime/unsupported.h"

// ---- graphics: a guest has no display of the host's GPU ------------------------------------------------------------
UNSUPPORTED(cudaGLGetDevices)
UNSUPPORTED(cudaGLMapBufferObject)
UNSUPPORTED(cudaGLMapBufferObjectAsync)
UNSUPPORTED(cudaGLRegisterBufferObject)
UNSUPPORTED(cudaGLSetBufferObjectMapFlags)
UNSUPPORTED(cudaGLSetGLDevice)
UNSUPPORTED(cudaGLUnmapBufferObject)
UNSUPPORTED(cudaGLUnmapBufferObjectAsync)
UNSUPPORTED(cudaGLUnregisterBufferObject)
UNSUPPORTED(cudaGraphicsEGLRegisterImage)
UNSUPPORTED(cudaGraphicsGLRegisterBuffer)
UNSUPPORTED(cudaGraphicsGLRegisterImage)
UNSUPPORTED(cudaGraphicsMapResources)
UNSUPPORTED(cudaGraphicsResourceGetMappedEglFrame)
UNSUPPORTED(cudaGraphicsResourceGetMappedMipmappedArray)
UNSUPPORTED(cudaGraphicsResourceGetMappedPointer)
UNSUPPORTED(cudaGraphicsResourceSetMapFlags)
UNSUPPORTED(cudaGraphicsSubResourceGetMappedArray)
UNSUPPORTED(cudaGraphicsUnmapResources)
UNSUPPORTED(cudaGraphicsUnregisterResource)
UNSUPPORTED(cudaGraphicsVDPAURegisterOutputSurface)
UNSUPPORTED(cudaGraphicsVDPAURegisterVideoSurface)
UNSUPPORTED(cudaVDPAUGetDevice)
UNSUPPORTED(cudaVDPAUSetVDPAUDevice)
UNSUPPORTED(cudaEGLStreamConsumerAcquireFrame)
UNSUPPORTED(cudaEGLStreamConsumerConnect)
UNSUPPORTED(cudaEGLStreamConsumerConnectWithFlags)
UNSUPPORTED(cudaEGLStreamConsumerDisconnect)
UNSUPPORTED(cudaEGLStreamConsumerReleaseFrame)
UNSUPPORTED(cudaEGLStreamProducerConnect)
UNSUPPORTED(cudaEGLStreamProducerDisconnect)
UNSUPPORTED(cudaEGLStreamProducerPresentFrame)
UNSUPPORTED(cudaEGLStreamProducerReturnFrame)
UNSUPPORTED(cudaEventCreateFromEGLSync)

// ---- private or rare ------------------------------------------------------------------------------------------------
UNSUPPORTED(__cudaGetProcAddress)
UNSUPPORTED(__cudaRegisterHostVar)
UNSUPPORTED(__cudaRegisterUnifiedTable)
UNSUPPORTED(cudaDeviceGetNvSciSyncAttributes)

// ---- of older toolkits: texture and surface references, gone since CUDA 12 -----------------------------------------
UNSUPPORTED(__cudaRegisterTexture)
UNSUPPORTED(__cudaRegisterSurface)
UNSUPPORTED(cudaBindTexture)
UNSUPPORTED(cudaBindTexture2D)
UNSUPPORTED(cudaBindTextureToArray)
UNSUPPORTED(cudaBindTextureToMipmappedArray)
UNSUPPORTED(cudaUnbindTexture)
UNSUPPORTED(cudaGetTextureReference)
UNSUPPORTED(cudaGetTextureAlignmentOffset)
UNSUPPORTED(cudaBindSurfaceToArray)
UNSUPPORTED(cudaGetSurfaceReference)
UNSUPPORTED(cudaLaunchCooperativeKernelMultiDevice)
UNSUPPORTED(cudaProfilerInitialize)
UNSUPPORTED(cudaSetDoubleForDevice)
UNSUPPORTED(cudaSetDoubleForHost)
