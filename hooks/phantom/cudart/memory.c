#include "memory.h"

#include "abi.h"
#include "capture.h"
#include "device.h"
#include "pinned.h"
#include "place.h"
#include "pool.h"
#include "settings.h"

#include <errno.h>
#include <string.h>

/* struct cudaPointerAttributes */
struct cudaPointerAttributes {
	int type; /* enum cudaMemoryType */
	int device;
	void *devicePointer;
	void *hostPointer;
#if PHANTOM_CUDA_MAJOR >= 13
	long reserved[8];
#endif
};

/* enum cudaMemoryType */
enum {
	MEMORY_UNREGISTERED = 0,
	MEMORY_HOST = 1,
	MEMORY_DEVICE = 2
};

#define NO_DEVICE (-2) /* cudaInvalidDeviceId */

PHANTOM_API cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	cudaError_t error = capture_forbids();

	*memory = NULL;
	if (error || !bytes)
		return error;
	return cudart_error_of(
		phantom_memory_alloc(phantom_device(), bytes, memory));
}

/* What of either kind starts there. */
static cudaError_t give_back(void *memory)
{
	if (memory && phantom_memory_free(memory) && phantom_pool_free(memory))
		return cudart_fail(cudaErrorInvalidValue);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaFree(void *memory)
{
	cudaError_t error = memory ? capture_forbids() : cudaSuccess;

	return error ? error : give_back(memory);
}

PHANTOM_API cudaError_t cudaMallocAsync(void **memory, size_t bytes,
					cudaStream_t handle)
{
	struct phantom_stream *stream;

	*memory = NULL;
	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (!bytes)
		return cudaSuccess;
	capture_node(stream, GRAPH_MEM_ALLOC);
	return cudart_error_of(
		phantom_pool_alloc(stream_device(handle), bytes, memory));
}

PHANTOM_API cudaError_t cudaFreeAsync(void *memory, cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	return give_back(memory);
}

PHANTOM_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	*free = *total = 0;
	if (!phantom_device_exists(phantom_device()))
		return cudart_fail(cudaErrorNoDevice);
	*free = phantom_free_bytes(phantom_device());
	*total = phantom_settings()->memory_bytes;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaHostAlloc(void **memory, size_t bytes,
				      unsigned flags)
{
	cudaError_t error = capture_forbids();

	(void)flags; /* all of it is portable, mapped, and not write-combined */
	*memory = NULL;
	if (error || !bytes)
		return error;
	return cudart_error_of(phantom_pinned_alloc(bytes, memory));
}

PHANTOM_API cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
	return cudaHostAlloc(memory, bytes, 0);
}

PHANTOM_API cudaError_t cudaFreeHost(void *memory)
{
	cudaError_t error = memory ? capture_forbids() : cudaSuccess;

	if (error || !memory)
		return error;
	return cudart_error_of(phantom_pinned_free(memory));
}

PHANTOM_API cudaError_t cudaHostRegister(void *memory, size_t bytes,
					 unsigned flags)
{
	int status = phantom_pin(memory, bytes);

	(void)flags;
	if (status == -EEXIST)
		return cudart_fail(cudaErrorHostMemoryAlreadyRegistered);
	return cudart_error_of(status);
}

PHANTOM_API cudaError_t cudaHostUnregister(void *memory)
{
	if (phantom_unpin(memory))
		return cudart_fail(cudaErrorHostMemoryNotRegistered);
	return cudaSuccess;
}

/* The device reads pinned memory where the host does. */
PHANTOM_API cudaError_t cudaHostGetDevicePointer(void **device, void *memory,
						 unsigned flags)
{
	bool pinned = phantom_place(memory).side == PHANTOM_PINNED;

	*device = pinned ? memory : NULL;
	return pinned && !flags ? cudaSuccess :
				  cudart_fail(cudaErrorInvalidValue);
}

PHANTOM_API cudaError_t cudaPointerGetAttributes(
	struct cudaPointerAttributes *attributes, const void *address)
{
	struct phantom_place place = phantom_place(address);

	memset(attributes, 0, sizeof(*attributes));
	attributes->type = MEMORY_UNREGISTERED;
	attributes->device = NO_DEVICE;
	if (place.side != PHANTOM_DEVICE)
		attributes->hostPointer = (void *)address;
	if (place.side == PHANTOM_UNKNOWN)
		return cudaSuccess;
	attributes->devicePointer = (void *)address;
	attributes->type = place.side == PHANTOM_DEVICE ? MEMORY_DEVICE :
							  MEMORY_HOST;
	attributes->device = place.side == PHANTOM_DEVICE ? place.device :
							    phantom_device();
	return cudaSuccess;
}
