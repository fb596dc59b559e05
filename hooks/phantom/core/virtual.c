#include "virtual.h"

#include "device.h"
#include "lock.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

static struct ranges reservations, mappings;

static bool whole_grains(size_t bytes)
{
	return bytes && bytes % PHANTOM_GRAIN == 0;
}

/* Pages without access over a range: reserved, or unmapped again. */
static int close_pages(uintptr_t address, size_t bytes, int how)
{
	void *wanted = (void *)address;

	return mmap(wanted, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1,
		    0) == wanted ?
		       0 :
		       -ENOMEM;
}

int phantom_reserve(size_t bytes, size_t align, uintptr_t *address)
{
	struct range range = { .end = bytes }, removed;
	int status;

	if (!whole_grains(bytes))
		return -EINVAL;
	if (align < PHANTOM_GRAIN)
		align = PHANTOM_GRAIN;
	phantom_lock();
	status = ranges_place(&reservations, &range, WINDOW_VIRTUAL, WINDOW_END,
			      align, PHANTOM_GRAIN);
	if (!status) {
		status = close_pages(range.start, bytes, MAP_FIXED_NOREPLACE);
		if (status)
			ranges_remove(&reservations, range.start, &removed);
	}
	phantom_unlock();
	*address = range.start;
	return status;
}

/* Whether anything is mapped in [address, address + bytes). */
static bool in_use(uintptr_t address, size_t bytes)
{
	for (size_t i = 0; i < mappings.count; i++)
		if (mappings.items[i].start < address + bytes &&
		    mappings.items[i].end > address)
			return true;
	return false;
}

int phantom_unreserve(uintptr_t address, size_t bytes)
{
	struct range *found, removed;
	int status = -EINVAL;

	phantom_lock();
	found = ranges_find(&reservations, address);
	if (found && found->start == address && found->end == address + bytes &&
	    !in_use(address, bytes)) {
		status = ranges_remove(&reservations, address, &removed);
		munmap((void *)address, bytes);
	}
	phantom_unlock();
	return status;
}

int phantom_create(int device, size_t bytes, struct phantom_physical **physical)
{
	int status = -ENOMEM;

	if (!whole_grains(bytes))
		return -EINVAL;
	*physical = phantom_handle_new(PHANTOM_PHYSICAL, sizeof(**physical));
	if (!*physical)
		return -ENOMEM;
	phantom_lock();
	status = device_charge(device, bytes);
	phantom_unlock();
	if (status) {
		phantom_handle_end(*physical, PHANTOM_PHYSICAL);
		return status;
	}
	(*physical)->bytes = bytes;
	(*physical)->device = device;
	(*physical)->references = 1;
	return 0;
}

void phantom_retain(struct phantom_physical *physical)
{
	phantom_lock();
	physical->references++;
	phantom_unlock();
}

/* The caller holds the lock, and ends the handle outside it if this is true. */
static bool let_go(struct phantom_physical *physical)
{
	if (physical->references || physical->mappings)
		return false;
	device_discharge(physical->device, physical->bytes);
	return true;
}

void phantom_release(struct phantom_physical *physical)
{
	bool last;

	phantom_lock();
	if (physical->references)
		physical->references--;
	last = let_go(physical);
	phantom_unlock();
	if (last)
		phantom_handle_end(physical, PHANTOM_PHYSICAL);
}

int phantom_map(uintptr_t address, size_t bytes,
		struct phantom_physical *physical)
{
	struct range range = { .start = address,
			       .end = address + bytes,
			       .bytes = bytes,
			       .owner = physical,
			       .device = physical->device };
	const struct range *reserved;
	int status = -EINVAL;

	phantom_lock();
	reserved = ranges_find(&reservations, address);
	if (reserved && range.end <= reserved->end && whole_grains(bytes) &&
	    bytes <= physical->bytes)
		status = ranges_add(&mappings, &range);
	if (!status)
		physical->mappings++;
	phantom_unlock();
	return status == -EEXIST ? -EINVAL : status;
}

int phantom_allow(uintptr_t address, size_t bytes)
{
	uintptr_t end = address + bytes, at = address;
	int status;

	phantom_lock();
	while (at < end) {
		const struct range *mapping = ranges_find(&mappings, at);

		if (!mapping)
			break;
		at = mapping->end;
	}
	status = at < end ? -EINVAL : 0;
	if (!status && mprotect((void *)address, bytes, PROT_READ | PROT_WRITE))
		status = -ENOMEM;
	phantom_unlock();
	return status;
}

/* Takes one mapping out of the range; the handle that ended with it, or NULL. */
static int unmap_first(uintptr_t *at, uintptr_t end,
		       struct phantom_physical **ended)
{
	struct range *found = ranges_find(&mappings, *at), removed;
	struct phantom_physical *physical;

	if (!found || found->start != *at || found->end > end ||
	    ranges_remove(&mappings, *at, &removed))
		return -EINVAL;
	close_pages(removed.start, removed.bytes, MAP_FIXED);
	physical = removed.owner;
	physical->mappings--;
	*ended = let_go(physical) ? physical : NULL;
	*at = removed.end;
	return 0;
}

int phantom_unmap(uintptr_t address, size_t bytes)
{
	uintptr_t at = address, end = address + bytes;
	struct phantom_physical *ended;
	int status = bytes ? 0 : -EINVAL;

	while (!status && at < end) {
		phantom_lock();
		status = unmap_first(&at, end, &ended);
		phantom_unlock();
		if (!status)
			phantom_handle_end(ended, PHANTOM_PHYSICAL);
	}
	return status;
}

struct phantom_physical *phantom_mapped_at(uintptr_t address)
{
	const struct range *mapping;
	struct phantom_physical *physical;

	phantom_lock();
	mapping = ranges_find(&mappings, address);
	physical = mapping ? mapping->owner : NULL;
	phantom_unlock();
	return physical;
}

const struct range *virtual_find(const void *address)
{
	return ranges_find(&mappings, (uintptr_t)address);
}
