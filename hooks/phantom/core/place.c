#include "place.h"

#include "device.h"
#include "lock.h"
#include "memory.h"
#include "pinned.h"
#include "pool.h"
#include "virtual.h"

static const struct range *device_range(const void *address)
{
	const struct range *range = memory_find(address);

	if (!range)
		range = pool_find(address);
	return range ? range : virtual_find(address);
}

struct phantom_place phantom_place(const void *address)
{
	struct phantom_place place = { .side = PHANTOM_UNKNOWN };
	const struct range *range;

	phantom_lock();
	if (phantom_is_device(address)) {
		place.side = PHANTOM_DEVICE;
		range = device_range(address);
	} else {
		place.side = PHANTOM_PINNED;
		range = pinned_find(address);
	}
	if (range) {
		place.device = range->device;
		place.start = range->start;
		place.bytes = range->end - range->start;
	} else {
		place.side = PHANTOM_UNKNOWN;
	}
	phantom_unlock();
	return place;
}
