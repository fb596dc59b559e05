#include "device.h"

#include "lock.h"
#include "settings.h"

#include <errno.h>

static _Thread_local int current;
static uint64_t taken[PHANTOM_DEVICES_MAX];

bool phantom_device_exists(int device)
{
	return device >= 0 && device < phantom_settings()->count;
}

int phantom_device(void)
{
	return current;
}

int phantom_set_device(int device)
{
	if (!phantom_device_exists(device))
		return -ENODEV;
	current = device;
	return 0;
}

uint64_t phantom_room(void)
{
	const struct phantom_settings *settings = phantom_settings();

	return settings->memory_bytes - settings->context_bytes;
}

static uint64_t free_bytes(int device)
{
	uint64_t room = phantom_room();

	return taken[device] < room ? room - taken[device] : 0;
}

int device_charge(int device, uint64_t bytes)
{
	if (!phantom_device_exists(device))
		return -ENODEV;
	if (bytes > free_bytes(device) && !phantom_settings()->overcommit)
		return -ENOMEM;
	taken[device] += bytes;
	return 0;
}

void device_discharge(int device, uint64_t bytes)
{
	taken[device] -= bytes;
}

uint64_t phantom_free_bytes(int device)
{
	uint64_t bytes;

	phantom_lock();
	bytes = free_bytes(device);
	phantom_unlock();
	return bytes;
}

bool phantom_is_device(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	return at >= WINDOW_MEMORY && at < WINDOW_END;
}
