#include "abi.h"
#include "attribute.h"
#include "device.h"
#include "settings.h"

#include <string.h>

static CUresult check_device(CUdevice device)
{
	return phantom_device_exists(device) ? CUDA_SUCCESS :
					       CUDA_ERROR_INVALID_DEVICE;
}

PHANTOM_API CUresult cuInit(unsigned flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return phantom_settings()->count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

PHANTOM_API CUresult cuDriverGetVersion(int *version)
{
	*version = PHANTOM_CUDA_VERSION;
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuDeviceGetCount(int *count)
{
	*count = phantom_settings()->count;
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return check_device(ordinal);
}

PHANTOM_API CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
	CUresult error = check_device(device);

	if (error || bytes <= 0)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	strncpy(name, phantom_settings()->name, bytes);
	name[bytes - 1] = '\0';
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = phantom_settings()->memory_bytes;
	return check_device(device);
}

PHANTOM_API CUresult cuDeviceGetAttribute(int *value, int attribute,
					  CUdevice device)
{
	CUresult error = check_device(device);

	*value = error ? 0 : phantom_attribute(attribute, device);
	return error;
}

PHANTOM_API CUresult cuDeviceGetUuid_v2(uint8_t *uuid, CUdevice device)
{
	CUresult error = check_device(device);

	memset(uuid, 0, PHANTOM_UUID_BYTES);
	if (!error)
		phantom_uuid(phantom_settings()->physical[device], uuid);
	return error;
}

PHANTOM_API CUresult cuDeviceGetUuid(uint8_t *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}
