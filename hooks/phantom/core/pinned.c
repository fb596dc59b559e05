#include "pinned.h"

#include "lock.h"

#include <errno.h>
#include <sys/mman.h>

static struct ranges allocated, registered;

int phantom_pinned_alloc(size_t bytes, void **memory)
{
	struct range range;
	int status;

	*memory = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*memory == MAP_FAILED)
		return -ENOMEM;
	range = (struct range){ .start = (uintptr_t)*memory,
				.end = (uintptr_t)*memory + (bytes ? bytes : 1),
				.bytes = bytes };
	phantom_lock();
	status = ranges_add(&allocated, &range);
	phantom_unlock();
	if (status)
		munmap(*memory, range.end - range.start);
	return status;
}

int phantom_pinned_free(void *memory)
{
	struct range range;
	int status;

	phantom_lock();
	status = ranges_remove(&allocated, (uintptr_t)memory, &range);
	phantom_unlock();
	if (!status)
		munmap(memory, range.end - range.start);
	return status;
}

int phantom_pin(void *memory, size_t bytes)
{
	struct range range = { .start = (uintptr_t)memory,
			       .end = (uintptr_t)memory + bytes,
			       .bytes = bytes };
	int status;

	if (!memory || !bytes)
		return -EINVAL;
	phantom_lock();
	status = ranges_add(&registered, &range);
	phantom_unlock();
	return status;
}

int phantom_unpin(void *memory)
{
	struct range range;
	int status;

	phantom_lock();
	status = ranges_remove(&registered, (uintptr_t)memory, &range);
	phantom_unlock();
	return status;
}

const struct range *pinned_find(const void *address)
{
	const struct range *found = ranges_find(&allocated, (uintptr_t)address);

	return found ? found : ranges_find(&registered, (uintptr_t)address);
}
