/*
 * Virtual memory management: addresses are reserved, memory is created, and
 * both are brought together, as torch's expandable segments do it.
 *
 * The device is charged when memory is created, and gets it back when its last
 * reference and its last mapping are gone. What it held is lost when it is
 * unmapped.
 */
#ifndef PHANTOM_VIRTUAL_H
#define PHANTOM_VIRTUAL_H

#include "handle.h"
#include "phantom.h"
#include "ranges.h"

#include <stdint.h>

struct phantom_physical {
	struct phantom_handle head;
	uint64_t bytes;
	int device;
	unsigned references, mappings;
};

/* 0; -ENOMEM: no such range is free; -EINVAL: not whole grains. */
PHANTOM_API int phantom_reserve(size_t bytes, size_t align, uintptr_t *address);
/* 0; -EINVAL: not reserved so, or something is still mapped there. */
PHANTOM_API int phantom_unreserve(uintptr_t address, size_t bytes);

/* One reference. 0; -ENOMEM; -ENODEV; -EINVAL: not whole grains. */
PHANTOM_API int phantom_create(int device, size_t bytes,
			       struct phantom_physical **physical);
PHANTOM_API void phantom_retain(struct phantom_physical *physical);
PHANTOM_API void phantom_release(struct phantom_physical *physical);

/* 0; -EINVAL: not reserved, or mapped already; -ENOMEM. Not accessible yet. */
PHANTOM_API int phantom_map(uintptr_t address, size_t bytes,
			    struct phantom_physical *physical);
/* 0; -EINVAL: something there is not mapped. */
PHANTOM_API int phantom_allow(uintptr_t address, size_t bytes);
/* 0; -EINVAL: the range does not consist of whole mappings. */
PHANTOM_API int phantom_unmap(uintptr_t address, size_t bytes);

/* The memory mapped there, or NULL. */
PHANTOM_API struct phantom_physical *phantom_mapped_at(uintptr_t address);

/* The mapping that `address` lies in; the caller holds the lock. */
const struct range *virtual_find(const void *address);

#endif
