#include "device.h"
#include "phantom.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * NVML, types and codes as in NVIDIA's NVML API reference (nvml.h). It counts
 * all devices, whatever CUDA_VISIBLE_DEVICES says. A handle is an element of
 * this array.
 */
static char devices[PHANTOM_DEVICES_MAX];

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9
};
typedef int nvmlReturn_t;
typedef char *nvmlDevice_t;

/* nvmlMemory_t */
struct memory {
	unsigned long long total, free, used;
};

static int physical_of(nvmlDevice_t device)
{
	ptrdiff_t physical = device - devices;

	return physical >= 0 && physical < phantom_settings()->physical_count ?
		       (int)physical :
		       -1;
}

static nvmlReturn_t text_out(char *out, unsigned bytes, const char *text)
{
	if (strlen(text) >= bytes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

PHANTOM_API nvmlReturn_t nvmlInit_v2(void)
{
	return phantom_settings()->physical_count ?
		       NVML_SUCCESS :
		       NVML_ERROR_DRIVER_NOT_LOADED;
}

PHANTOM_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version,
						    unsigned bytes)
{
	return text_out(version, bytes, "phantom");
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)phantom_settings()->physical_count;
	return NVML_SUCCESS;
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index,
						       nvmlDevice_t *device)
{
	*device = NULL;
	if (index >= (unsigned)phantom_settings()->physical_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return NVML_SUCCESS;
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid,
						   nvmlDevice_t *device)
{
	char text[PHANTOM_UUID_TEXT_BYTES];

	*device = NULL;
	for (int i = 0; i < phantom_settings()->physical_count; i++) {
		phantom_uuid_text(i, text);
		if (!strcmp(uuid, text))
			*device = &devices[i];
	}
	return *device ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* "0000:01:00.0" or with a longer domain: the bus is the device's plus one. */
PHANTOM_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id,
							  nvmlDevice_t *device)
{
	const char *bus = strchr(id, ':');
	long number = bus ? strtol(bus + 1, NULL, 16) : 0;

	*device = NULL;
	if (number < 1 || number > phantom_settings()->physical_count)
		return NVML_ERROR_NOT_FOUND;
	*device = &devices[number - 1];
	return NVML_SUCCESS;
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device,
					    unsigned *index)
{
	int physical = physical_of(device);

	*index = physical < 0 ? 0 : (unsigned)physical;
	return physical < 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid,
					   unsigned bytes)
{
	char text[PHANTOM_UUID_TEXT_BYTES];
	int physical = physical_of(device);

	if (physical < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	phantom_uuid_text(physical, text);
	return text_out(uuid, bytes, text);
}

PHANTOM_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name,
					   unsigned bytes)
{
	if (physical_of(device) < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	return text_out(name, bytes, phantom_settings()->name);
}

/* Of a device that is visible: what this process has taken. */
PHANTOM_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device,
						 struct memory *memory)
{
	const struct phantom_settings *settings = phantom_settings();
	int physical = physical_of(device);

	*memory = (struct memory){ 0 };
	if (physical < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory->total = memory->free = settings->memory_bytes;
	for (int i = 0; i < settings->count; i++)
		if (settings->physical[i] == physical)
			memory->free = phantom_free_bytes(i);
	memory->used = memory->total - memory->free;
	return NVML_SUCCESS;
}

/*
 * Devices from 9.0 on can be part of a fabric; this one is of none (state 0). The
 * structure begins with its version, whose low three bytes are its size.
 */
PHANTOM_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
						     unsigned *info)
{
	size_t bytes = *info & 0xffffff;

	if (physical_of(device) < 0 || bytes < sizeof(*info))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (phantom_settings()->model.major < 9)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(info + 1, 0, bytes - sizeof(*info));
	return NVML_SUCCESS;
}
