/*
 * struct cudaDeviceProp as NVIDIA's driver_types.h lays it out: for 12.x that of
 * cudaGetDeviceProperties_v2, for 13.x that of cudaGetDeviceProperties. Fields
 * that stay zero have no name of their own here.
 */
#ifndef PHANTOM_CUDART_PROPERTIES_H
#define PHANTOM_CUDART_PROPERTIES_H

#include "abi.h"

#if PHANTOM_CUDA_MAJOR == 12
#define ONLY_12(field) field
#define ONLY_13(field)
#else
#define ONLY_12(field)
#define ONLY_13(field) field
#endif

struct cudaDeviceProp {
	char name[256];
	uint8_t uuid[16];
	char luid[8];
	unsigned luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	ONLY_12(int clockRate;)
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	ONLY_12(int deviceOverlap;)
	int multiProcessorCount;
	ONLY_12(int kernelExecTimeoutEnabled;)
	int integrated;
	int canMapHostMemory;
	ONLY_12(int computeMode;)
	ONLY_12(int maxTexture1DLinear;)
	int texturesAndSurfaces[39]; /* maxTexture1D to the cubemaps */
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	ONLY_12(int memoryClockRate;)
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	ONLY_12(int singleToDoublePrecisionPerfRatio;)
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	ONLY_12(int cooperativeMultiDeviceLaunch;)
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseCudaArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	ONLY_12(int reserved[63];)
	ONLY_13(int numaMpsAndReserved[63];)
};

#if PHANTOM_CUDA_MAJOR == 12
_Static_assert(sizeof(struct cudaDeviceProp) == 1032, "cudaDeviceProp of 12");
#else
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "cudaDeviceProp of 13");
#endif

#endif
