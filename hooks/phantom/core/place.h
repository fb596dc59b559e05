/*
 * What an address is.
 */
#ifndef PHANTOM_PLACE_H
#define PHANTOM_PLACE_H

#include "phantom.h"

#include <stddef.h>
#include <stdint.h>

enum phantom_side {
	PHANTOM_UNKNOWN, /* host memory that nobody pinned, or nothing */
	PHANTOM_PINNED,
	PHANTOM_DEVICE
};

struct phantom_place {
	enum phantom_side side;
	int device; /* of PHANTOM_DEVICE */
	uintptr_t start;
	size_t bytes; /* of the allocation, from start */
};

PHANTOM_API struct phantom_place phantom_place(const void *address);

#endif
