#include "handle.h"

#include "lock.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_BYTES 64
#define CLASSES (PHANTOM_HANDLE_BYTES_MAX / CLASS_BYTES)
#define PAGE_BYTES 4096 /* nothing is ever mapped below */

static struct phantom_handle *unused[CLASSES];

static struct phantom_handle *reuse(size_t size_class)
{
	struct phantom_handle *handle;

	phantom_lock();
	handle = unused[size_class];
	if (handle)
		unused[size_class] = handle->next_free;
	phantom_unlock();
	return handle;
}

void *phantom_handle_new(enum phantom_kind kind, size_t bytes)
{
	size_t size_class = (bytes - 1) / CLASS_BYTES;
	struct phantom_handle *handle;

	if (size_class >= CLASSES)
		return NULL;
	bytes = (size_class + 1) * CLASS_BYTES;
	handle = reuse(size_class);
	if (!handle)
		handle = malloc(bytes);
	if (!handle)
		return NULL;
	memset(handle, 0, bytes);
	handle->kind = kind;
	handle->size_class = (uint32_t)size_class;
	return handle;
}

bool phantom_handle_is(const void *handle, enum phantom_kind kind)
{
	return (uintptr_t)handle >= PAGE_BYTES &&
	       ((const struct phantom_handle *)handle)->kind == kind;
}

void phantom_handle_end(void *handle, enum phantom_kind kind)
{
	struct phantom_handle *ended = handle;

	if (!phantom_handle_is(handle, kind))
		return;
	phantom_lock();
	ended->kind = PHANTOM_FREE;
	ended->next_free = unused[ended->size_class];
	unused[ended->size_class] = ended;
	phantom_unlock();
}
