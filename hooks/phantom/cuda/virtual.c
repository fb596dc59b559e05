#include "virtual.h"

#include "abi.h"
#include "device.h"

#include <string.h>

/*
 * Virtual memory management. Handles of memory are CUmemGenericAllocationHandle,
 * 64 bits wide: the address of the entry in the books.
 */

/* CUmemAllocationProp */
struct allocation_prop {
	int type; /* CU_MEM_ALLOCATION_TYPE_PINNED is 1 */
	int handle_types;
	int location_type; /* CU_MEM_LOCATION_TYPE_DEVICE is 1 */
	int location_id;
	void *metadata;
	uint8_t flags[8];
};
_Static_assert(sizeof(struct allocation_prop) == 32, "CUmemAllocationProp");

#define TYPE_PINNED 1
#define LOCATION_DEVICE 1

static struct phantom_physical *physical_of(unsigned long long handle)
{
	void *address = (void *)(uintptr_t)handle;

	return phantom_handle_is(address, PHANTOM_PHYSICAL) ? address : NULL;
}

PHANTOM_API CUresult cuMemGetAllocationGranularity(
	size_t *bytes, const struct allocation_prop *prop, int option)
{
	(void)prop;
	(void)option; /* the minimum is also what is recommended */
	*bytes = PHANTOM_GRAIN;
	return CUDA_SUCCESS;
}

/* A wish for an address is not heard, which the real one may do as well. */
PHANTOM_API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes,
					 size_t align, CUdeviceptr wish,
					 unsigned long long flags)
{
	(void)wish;
	(void)flags;
	return cuda_error_of(phantom_reserve(bytes, align, address));
}

PHANTOM_API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	return cuda_error_of(phantom_unreserve(address, bytes));
}

PHANTOM_API CUresult cuMemCreate(unsigned long long *handle, size_t bytes,
				 const struct allocation_prop *prop,
				 unsigned long long flags)
{
	struct phantom_physical *physical;
	int status;

	*handle = 0;
	if (flags || prop->type != TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location_type != LOCATION_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED; /* memory of the host */
	status = phantom_create(prop->location_id, bytes, &physical);
	if (!status)
		*handle = (uintptr_t)physical;
	return cuda_error_of(status);
}

PHANTOM_API CUresult cuMemRelease(unsigned long long handle)
{
	struct phantom_physical *physical = physical_of(handle);

	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	phantom_release(physical);
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
			      unsigned long long handle,
			      unsigned long long flags)
{
	struct phantom_physical *physical = physical_of(handle);

	if (!physical || offset || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return cuda_error_of(phantom_map(address, bytes, physical));
}

PHANTOM_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	return cuda_error_of(phantom_unmap(address, bytes));
}

/* Whoever gets access, the pages are then readable and writable to all. */
PHANTOM_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
				    const void *access, size_t count)
{
	if (!access || !count)
		return CUDA_ERROR_INVALID_VALUE;
	return cuda_error_of(phantom_allow(address, bytes));
}

PHANTOM_API CUresult cuMemRetainAllocationHandle(unsigned long long *handle,
						 const void *address)
{
	struct phantom_physical *physical = phantom_mapped_at(
		(uintptr_t)address);

	*handle = (uintptr_t)physical;
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	phantom_retain(physical);
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuMemGetAllocationPropertiesFromHandle(
	struct allocation_prop *prop, unsigned long long handle)
{
	const struct phantom_physical *physical = physical_of(handle);

	memset(prop, 0, sizeof(*prop));
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	prop->type = TYPE_PINNED;
	prop->location_type = LOCATION_DEVICE;
	prop->location_id = physical->device;
	return CUDA_SUCCESS;
}
