#include "memory.h"

#include "abi.h"
#include "content.h"
#include "device.h"
#include "place.h"

#include <string.h>

/* CUpointer_attribute */
enum {
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_DEVICE_POINTER = 3,
	ATTRIBUTE_HOST_POINTER = 4,
	ATTRIBUTE_IS_MANAGED = 8,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	ATTRIBUTE_RANGE_START = 11,
	ATTRIBUTE_RANGE_SIZE = 12
};

/* CUmemorytype */
enum {
	TYPE_HOST = 1,
	TYPE_DEVICE = 2
};

PHANTOM_API CUresult cuPointerGetAttribute(void *value, int attribute,
					   CUdeviceptr address)
{
	struct phantom_place place = phantom_place((void *)address);

	if (place.side == PHANTOM_UNKNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	if (place.side == PHANTOM_PINNED)
		place.device = phantom_device();
	switch (attribute) {
	case ATTRIBUTE_CONTEXT:
		*(CUcontext *)value = cuda_context_of(place.device);
		return CUDA_SUCCESS;
	case ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)value = place.side == PHANTOM_DEVICE ?
					     TYPE_DEVICE :
					     TYPE_HOST;
		return CUDA_SUCCESS;
	case ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)value = address;
		return CUDA_SUCCESS;
	case ATTRIBUTE_HOST_POINTER:
		if (place.side == PHANTOM_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		*(CUdeviceptr *)value = address;
		return CUDA_SUCCESS;
	case ATTRIBUTE_IS_MANAGED:
		*(unsigned *)value = 0;
		return CUDA_SUCCESS;
	case ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = place.device;
		return CUDA_SUCCESS;
	case ATTRIBUTE_RANGE_START:
		*(CUdeviceptr *)value = place.start;
		return CUDA_SUCCESS;
	case ATTRIBUTE_RANGE_SIZE:
		*(size_t *)value = place.bytes;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

PHANTOM_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes,
					     CUdeviceptr address)
{
	struct phantom_place place = phantom_place((void *)address);

	if (start)
		*start = place.start;
	if (bytes)
		*bytes = place.bytes;
	return place.side == PHANTOM_UNKNOWN ? CUDA_ERROR_NOT_FOUND :
					       CUDA_SUCCESS;
}

/* At once, as all copies: `stream` may be anything. */
PHANTOM_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value,
				      size_t count, void *stream)
{
	(void)stream;
	if (!value) {
		phantom_fill((void *)to, 0, count * sizeof(value));
		return CUDA_SUCCESS;
	}
	for (size_t i = 0; i < count; i++)
		phantom_copy((unsigned *)to + i, &value, sizeof(value));
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuStreamWriteValue32_v2(void *stream, CUdeviceptr address,
					     uint32_t value, unsigned flags)
{
	(void)stream;
	(void)flags;
	phantom_copy((void *)address, &value, sizeof(value));
	return CUDA_SUCCESS;
}
