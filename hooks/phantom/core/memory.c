#include "memory.h"

#include "device.h"
#include "lock.h"

#include <errno.h>
#include <sys/mman.h>

static struct ranges blocks;

static int map_pages(const struct range *range)
{
	void *wanted = (void *)range->start;
	void *mapped = mmap(wanted, range->end - range->start,
			    PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				    MAP_FIXED_NOREPLACE,
			    -1, 0);

	if (mapped == wanted)
		return 0;
	if (mapped != MAP_FAILED) /* a kernel that takes it as a hint */
		munmap(mapped, range->end - range->start);
	return -ENOMEM;
}

/* `range->bytes` is what the device is charged with. */
static int place(struct range *range)
{
	uintptr_t low = WINDOW_MEMORY + range->device * WINDOW_BYTES;
	struct range removed;
	int status = ranges_place(&blocks, range, low, low + WINDOW_BYTES,
				  PHANTOM_GRAIN, PHANTOM_GRAIN);

	if (status)
		return status;
	status = map_pages(range);
	if (status)
		ranges_remove(&blocks, range->start, &removed);
	return status;
}

static int allocate(int device, size_t bytes, bool charged, void **memory)
{
	size_t taken = (bytes + PHANTOM_GRAIN - 1) & ~(PHANTOM_GRAIN - 1);
	struct range range = { .end = taken,
			       .bytes = charged ? taken : 0,
			       .device = device };
	int status;

	if (!taken) /* none asked for, or more than an address can say */
		return -ENOMEM;
	phantom_lock();
	status = device_charge(device, range.bytes);
	if (!status) {
		status = place(&range);
		if (status)
			device_discharge(device, range.bytes);
	}
	phantom_unlock();
	if (!status)
		*memory = (void *)range.start;
	return status;
}

int phantom_memory_alloc(int device, size_t bytes, void **memory)
{
	return allocate(device, bytes, true, memory);
}

int phantom_memory_of_context(int device, size_t bytes, void **memory)
{
	return allocate(device, bytes, false, memory);
}

int phantom_memory_free(void *memory)
{
	struct range range;
	int status;

	phantom_lock();
	status = ranges_remove(&blocks, (uintptr_t)memory, &range);
	if (!status) {
		munmap(memory, range.end - range.start);
		device_discharge(range.device, range.bytes);
	}
	phantom_unlock();
	return status;
}

const struct range *memory_find(const void *address)
{
	return ranges_find(&blocks, (uintptr_t)address);
}
