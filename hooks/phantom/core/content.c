#include "content.h"

#include "device.h"
#include "lock.h"
#include "settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 65536 /* a power of two; a newer scalar may push out an older */

/* Scalars that the host wrote: where, and how many bytes. */
static struct scalar {
	uintptr_t address;
	size_t bytes;
} scalars[SLOTS];

static struct scalar *slot(const void *address)
{
	uint64_t hash = (uint64_t)(uintptr_t)address *
			UINT64_C(0x9e3779b97f4a7c15);

	return &scalars[hash >> 48 & (SLOTS - 1)];
}

static void note(const void *address, size_t bytes)
{
	phantom_lock();
	*slot(address) = (struct scalar){ (uintptr_t)address, bytes };
	phantom_unlock();
}

static bool noted(const void *address, size_t bytes)
{
	const struct scalar *scalar = slot(address);
	bool found;

	phantom_lock();
	found = scalar->address == (uintptr_t)address && scalar->bytes == bytes;
	phantom_unlock();
	return found;
}

static void copy_scalar(void *to, const void *from, size_t bytes)
{
	bool known = !phantom_is_device(from) || noted(from, bytes);

	if (known)
		memmove(to, from, bytes);
	else
		memset(to, 0, bytes);
	if (phantom_is_device(to))
		note(to, bytes);
}

void phantom_copy(void *to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	if (bytes <= SCALAR_BYTES)
		copy_scalar(to, from, bytes);
	else if (!phantom_is_device(to) ||
		 bytes <= phantom_settings()->copy_max_bytes)
		memmove(to, from, bytes);
}

void phantom_copy_rows(void *to, size_t to_pitch, const void *from,
		       size_t from_pitch, size_t width, size_t height)
{
	if (phantom_is_device(to) && width &&
	    height > phantom_settings()->copy_max_bytes / width)
		return;
	for (size_t row = 0; row < height; row++)
		phantom_copy((char *)to + row * to_pitch,
			     (const char *)from + row * from_pitch, width);
}

/* Whole pages are dropped, so that zeros take no host memory. */
static void zero_pages(void *to, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)to, end = start + bytes;
	uintptr_t first = (start + page - 1) & ~(page - 1);
	uintptr_t last = end & ~(page - 1);

	if (first >= last ||
	    madvise((void *)first, last - first, MADV_DONTNEED)) {
		memset(to, 0, bytes);
		return;
	}
	memset(to, 0, first - start);
	memset((void *)last, 0, end - last);
}

void phantom_fill(void *to, int value, size_t bytes)
{
	bool device = phantom_is_device(to);

	if (!bytes)
		return;
	if (device && bytes > phantom_settings()->copy_max_bytes) {
		if (!(value & 0xff))
			zero_pages(to, bytes);
		return;
	}
	memset(to, value, bytes);
	if (device && bytes <= SCALAR_BYTES)
		note(to, bytes);
}
