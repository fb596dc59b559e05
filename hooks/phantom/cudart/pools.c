#include "abi.h"
#include "device.h"
#include "pool.h"

/*
 * The default memory pool of a device; its handle is an element of this array.
 */
static char pools[PHANTOM_DEVICES_MAX];

/* enum cudaMemPoolAttr */
enum {
	REUSE_FOLLOW_EVENT = 1,
	REUSE_OPPORTUNISTIC = 2,
	REUSE_INTERNAL = 3,
	RELEASE_THRESHOLD = 4,
	RESERVED_CURRENT = 5,
	RESERVED_HIGH = 6,
	USED_CURRENT = 7,
	USED_HIGH = 8
};

static int device_of(cudaMemPool_t pool)
{
	ptrdiff_t device = (char *)pool - pools;

	return device >= 0 && device < PHANTOM_DEVICES_MAX ? (int)device : -1;
}

PHANTOM_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool,
						    int device)
{
	*pool = NULL;
	if (!phantom_device_exists(device))
		return cudart_fail(cudaErrorInvalidDevice);
	*pool = &pools[device];
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
						int attribute, void *value)
{
	int device = device_of(pool);
	struct phantom_pool_state state;

	if (device < 0)
		return cudart_fail(cudaErrorInvalidValue);
	state = phantom_pool_state(device);
	switch (attribute) {
	case REUSE_FOLLOW_EVENT:
	case REUSE_OPPORTUNISTIC:
	case REUSE_INTERNAL:
		*(int *)value = 1;
		return cudaSuccess;
	case RELEASE_THRESHOLD:
		*(uint64_t *)value = state.threshold;
		return cudaSuccess;
	case RESERVED_CURRENT:
		*(uint64_t *)value = state.reserved;
		return cudaSuccess;
	case RESERVED_HIGH:
		*(uint64_t *)value = state.reserved_high;
		return cudaSuccess;
	case USED_CURRENT:
		*(uint64_t *)value = state.used;
		return cudaSuccess;
	case USED_HIGH:
		*(uint64_t *)value = state.used_high;
		return cudaSuccess;
	default:
		return cudart_fail(cudaErrorInvalidValue);
	}
}

PHANTOM_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
						int attribute, void *value)
{
	int device = device_of(pool);

	if (device < 0)
		return cudart_fail(cudaErrorInvalidValue);
	switch (attribute) {
	case REUSE_FOLLOW_EVENT:
	case REUSE_OPPORTUNISTIC:
	case REUSE_INTERNAL:
		return cudaSuccess;
	case RELEASE_THRESHOLD:
		phantom_pool_set_threshold(device, *(uint64_t *)value);
		return cudaSuccess;
	case RESERVED_HIGH:
	case USED_HIGH: /* only a reset is possible; both marks fall here */
		phantom_pool_reset_high(device);
		return cudaSuccess;
	default:
		return cudart_fail(cudaErrorInvalidValue);
	}
}

PHANTOM_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	int device = device_of(pool);

	if (device < 0)
		return cudart_fail(cudaErrorInvalidValue);
	phantom_pool_trim(device, keep);
	return cudaSuccess;
}

/* Every device may use every pool. */
PHANTOM_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
					     const void *access, size_t count)
{
	(void)access;
	(void)count;
	return device_of(pool) < 0 ? cudart_fail(cudaErrorInvalidValue) :
				     cudaSuccess;
}

/* Graphs allocate no memory of their own. */
PHANTOM_API cudaError_t cudaDeviceGetGraphMemAttribute(int device,
						       int attribute,
						       void *value)
{
	(void)attribute;
	*(uint64_t *)value = 0;
	return phantom_device_exists(device) ?
		       cudaSuccess :
		       cudart_fail(cudaErrorInvalidDevice);
}

PHANTOM_API cudaError_t cudaDeviceSetGraphMemAttribute(int device,
						       int attribute,
						       void *value)
{
	(void)attribute;
	(void)value;
	return phantom_device_exists(device) ?
		       cudaSuccess :
		       cudart_fail(cudaErrorInvalidDevice);
}
