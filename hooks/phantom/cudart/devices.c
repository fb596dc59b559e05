#include "abi.h"
#include "attribute.h"
#include "capture.h"
#include "device.h"
#include "lock.h"
#include "properties.h"
#include "settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool peers[PHANTOM_DEVICES_MAX][PHANTOM_DEVICES_MAX];

static cudaError_t check_device(int device)
{
	if (phantom_device_exists(device))
		return cudaSuccess;
	return cudart_fail(phantom_settings()->count ? cudaErrorInvalidDevice :
						       cudaErrorNoDevice);
}

PHANTOM_API cudaError_t cudaDriverGetVersion(int *version)
{
	*version = PHANTOM_CUDA_VERSION;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = PHANTOM_CUDA_VERSION;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGetDeviceCount(int *count)
{
	*count = phantom_settings()->count;
	return *count ? cudaSuccess : cudart_fail(cudaErrorNoDevice);
}

PHANTOM_API cudaError_t cudaGetDevice(int *device)
{
	*device = phantom_device();
	return check_device(*device);
}

PHANTOM_API cudaError_t cudaSetDevice(int device)
{
	phantom_set_device(device);
	return check_device(device);
}

PHANTOM_API cudaError_t cudaDeviceGetAttribute(int *value, int attribute,
					       int device)
{
	cudaError_t error = check_device(device);

	*value = error ? 0 : phantom_attribute(attribute, device);
	return error;
}

PHANTOM_API cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
	cudaError_t error = check_device(device);

	if (error)
		return error;
	snprintf(id, bytes, "0000:%02x:00.0",
		 phantom_settings()->physical[device] + 1);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least,
							 int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaDeviceSynchronize(void)
{
	return capture_forbids();
}

PHANTOM_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t error = check_device(device);

	if (!error)
		error = check_device(peer);
	*can = !error && device != peer;
	return error;
}

PHANTOM_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	cudaError_t error = flags ? cudart_fail(cudaErrorInvalidValue) :
				    check_device(peer);
	bool *enabled;

	if (error)
		return error;
	enabled = &peers[phantom_device()][peer];
	phantom_lock();
	error = *enabled ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
	*enabled = true;
	phantom_unlock();
	return cudart_fail(error);
}

static void fill_limits(struct cudaDeviceProp *prop,
			const struct phantom_architecture *arch)
{
	prop->sharedMemPerBlock = 48 << 10;
	prop->sharedMemPerBlockOptin = arch->shared_per_block_optin;
	prop->sharedMemPerMultiprocessor = arch->shared_per_multiprocessor;
	prop->reservedSharedMemPerBlock = 1 << 10;
	prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
	prop->warpSize = 32;
	prop->memPitch = 2147483647;
	prop->maxThreadsPerBlock = 1024;
	prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
	prop->maxThreadsDim[2] = 64;
	prop->maxGridSize[0] = 2147483647;
	prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
	prop->totalConstMem = 64 << 10;
	prop->maxThreadsPerMultiProcessor = arch->threads_per_multiprocessor;
	prop->maxBlocksPerMultiProcessor = arch->blocks_per_multiprocessor;
}

static void fill_abilities(struct cudaDeviceProp *prop)
{
	prop->textureAlignment = prop->surfaceAlignment = 512;
	prop->texturePitchAlignment = 32;
	prop->canMapHostMemory = prop->concurrentKernels = 1;
	prop->asyncEngineCount = 3;
	prop->unifiedAddressing = prop->streamPrioritiesSupported = 1;
	prop->globalL1CacheSupported = prop->localL1CacheSupported = 1;
	prop->managedMemory = prop->computePreemptionSupported = 1;
	prop->cooperativeLaunch = prop->hostRegisterSupported = 1;
	prop->memoryPoolsSupported = prop->unifiedFunctionPointers = 1;
	prop->clusterLaunch = prop->major >= 9;
}

static void fill_model(struct cudaDeviceProp *prop, int device)
{
	const struct phantom_settings *settings = phantom_settings();
	int physical = settings->physical[device];

	memcpy(prop->name, settings->name, sizeof(prop->name));
	phantom_uuid(physical, prop->uuid);
	prop->totalGlobalMem = settings->memory_bytes;
	prop->major = settings->model.major;
	prop->minor = settings->model.minor;
	prop->multiProcessorCount = settings->model.multiprocessors;
	prop->pciBusID = physical + 1;
	prop->memoryBusWidth = settings->model.bus_bits;
	prop->l2CacheSize = settings->model.l2_bytes;
#if PHANTOM_CUDA_MAJOR == 12
	prop->clockRate = settings->model.clock_khz;
	prop->memoryClockRate = settings->model.memory_clock_khz;
	prop->deviceOverlap = 1;
#endif
}

static cudaError_t properties(struct cudaDeviceProp *prop, int device)
{
	cudaError_t error = check_device(device);

	memset(prop, 0, sizeof(*prop));
	if (error)
		return error;
	fill_model(prop, device);
	fill_limits(prop, phantom_settings()->architecture);
	fill_abilities(prop);
	return cudaSuccess;
}

#if PHANTOM_CUDA_MAJOR == 12
PHANTOM_API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop,
						   int device)
#else
PHANTOM_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop,
						int device)
#endif
{
	return properties(prop, device);
}
