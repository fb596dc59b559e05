/*
 * Opaque objects that the stubs hand out: streams, events, descriptors.
 *
 * Each begins with a struct phantom_handle. Their memory is kept for later
 * objects and never given back, so that a handle used after its end is
 * recognised and not a fault.
 */
#ifndef PHANTOM_HANDLE_H
#define PHANTOM_HANDLE_H

#include "phantom.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum phantom_kind {
	PHANTOM_FREE = 0,
	PHANTOM_STREAM = 0x50480001,
	PHANTOM_EVENT,
	PHANTOM_GRAPH,
	PHANTOM_GRAPH_EXEC,
	PHANTOM_USER_OBJECT,
	PHANTOM_COMMUNICATOR,
	PHANTOM_PHYSICAL,
	PHANTOM_DESCRIPTOR, /* what a library calls so and keeps nothing in */
	PHANTOM_CUDNN
};

struct phantom_handle {
	uint32_t kind;
	uint32_t size_class;
	struct phantom_handle *next_free;
};

#define PHANTOM_HANDLE_BYTES_MAX 512

/* Zeroed past its head. NULL: no memory. */
PHANTOM_API void *phantom_handle_new(enum phantom_kind kind, size_t bytes);
/* NULL and what is no handle of that kind any more are left alone. */
PHANTOM_API void phantom_handle_end(void *handle, enum phantom_kind kind);
/* Small numbers are no handles; anything else must have been one. */
PHANTOM_API bool phantom_handle_is(const void *handle, enum phantom_kind kind);

#endif
