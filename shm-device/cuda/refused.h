/* SPDX-License-Identifier: Apache-2.0
 * refused.h: what is refused by decision, once: why, and what to do instead. The guest says so where such a function
 * is called (guest-allocator/client/refused.cc), docs/support.md where it is listed. C as well as C++: the functions
 * that refuse are generated (guest-allocator/exports/unsupported.sh). The first entry that names a function counts; a
 * name that ends in * names all that begin so. docs/support.py fails where a refused function has no entry, and where
 * an entry has no refused function.
 *
 *   X(why, what to do instead, names)
 */
#pragma once

// clang-format off
#define BARCUDA_REFUSED(X)                                                                                           \
    X("a guest has no display of the host's GPU", "copy through CUDA's memory",                                      \
      "cuGraphics* cuGL* cuEGL* cuVDPAU* cuEventCreateFromEGLSync "                                                  \
      "cudaGraphics* cudaGL* cudaEGL* cudaVDPAU* cudaEventCreateFromEGLSync "                                        \
      "cuD3D* cuWGL* cudaD3D* cudaWGL*")                                                                             \
    X("texture and surface references are gone since CUDA 12", "use texture and surface objects",                    \
      "cudaBind* cudaUnbindTexture "                                                                                 \
      "cudaGetTexture* cudaGetSurfaceReference __cudaRegisterTexture __cudaRegisterSurface")                         \
    X("it is deprecated since CUDA 11.3 (CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH is 0)",                  \
      "launch on each device by cuLaunchCooperativeKernel",                                                          \
      "cuLaunchCooperativeKernelMultiDevice cudaLaunchCooperativeKernelMultiDevice")                                 \
    X("devices have had doubles since CUDA 2", "leave it out", "cudaSetDoubleFor*")                                  \
    X("it is between NVIDIA's compiler and NVIDIA's runtime", "please report the program",                           \
      "__cudaGetProcAddress __cudaRegisterHostVar __cudaRegisterUnifiedTable")                                       \
    X("NVIDIA's driver refuses it as well; profilers see the host's GPU from the host alone",                        \
      "run the profiler around the worker, there",                                                                   \
      "cuProfilerInitialize cudaProfilerInitialize")                                                                 \
    X("a handle of another API names what the guest's kernel has, which the host's driver does not know",            \
      "share by cudaIpc*, wait by events",                                                                           \
      "cuImportExternal* cuDestroyExternal* cuExternalMemory* cuSignalExternal* cuWaitExternal* cuGraphAddExternal* " \
      "cuGraphExternal* cuGraphExecExternal* cudaImportExternal* cudaDestroyExternal* cudaExternalMemory* "          \
      "cudaSignalExternal* cudaWaitExternal* cudaGraphAddExternal* cudaGraphExternal* cudaGraphExecExternal*")       \
    X("a DMA-BUF of the host's GPU means nothing to a guest's devices (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0)", \
      "send from pinned memory", "cuMemGetHandleForAddressRange")                                                    \
    X("NVLink multicast would reach other VMs' memory (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0)",               \
      "use peer access", "cuMulticast*")                                                                             \
    X("the process that holds the GPU is the worker, on the host", "end the program's CUDA work before it is saved", \
      "cuCheckpoint*")                                                                                               \
    X("sparse arrays are not mapped in parts (CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED is 0)",                \
      "create arrays without CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING", "cuMemMapArrayAsync")           \
    X("the GPU's decompression engine is not a guest's (CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK is 0)",    \
      "decompress in kernels", "cuMemBatchDecompressAsync")                                                          \
    X("functions of the host and of the GPU lie in two machines (CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0)", \
      "launch a kernel", "cuLibraryGetUnifiedFunction cudaLibraryGetUnifiedFunction")                                \
    X("it is for Windows, and NVIDIA's driver for Linux refuses it as well", "tell devices apart by cuDeviceGetUuid", \
      "cuDeviceGetLuid")                                                                                             \
    X("NvSci is for embedded boards, and NVIDIA's driver for others refuses it as well", "wait by events",           \
      "cuDeviceGetNvSciSyncAttributes cudaDeviceGetNvSciSyncAttributes")                                             \
    X("counters, samples and ranges are read by a tool around the worker, on the host; activity and callbacks are here", \
      "use --worker-wrapper (docs/profiling.md)", "cupti*")                                                         \
    X("it is cuBLAS as it was before it had handles, or for several GPUs", "use cublas_v2.h, or NVIDIA's cuBLAS in the guest", \
      "cublasXt* cublasAlloc cublasFree cublasInit cublasShutdown cublasGetError cublasSetKernelStream")             \
    X("the host's cuBLAS and cuRAND are served for what programs were seen to call",                                 \
      "use NVIDIA's in the guest, without --host-libraries", "cublas* curand*")                                      \
    X("it is for GPUs newer than any that Barcuda has run on", "use cuTensorMapEncodeIm2col",                        \
      "cuTensorMapEncodeIm2colWide")
// clang-format on
