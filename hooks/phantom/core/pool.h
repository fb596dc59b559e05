/*
 * The device's default memory pool, as cudaMallocAsync uses it.
 *
 * A pool takes memory from its device in steps of 32 MiB and gives pieces of
 * 512 bytes and more out of it; when less than a step is left, it takes just
 * what is needed. Pieces are never fragmented in these books: what the pool holds
 * is what is used, rounded up, or what it was told to keep.
 */
#ifndef PHANTOM_POOL_H
#define PHANTOM_POOL_H

#include "phantom.h"
#include "ranges.h"

#include <stdint.h>

struct phantom_pool_state {
	uint64_t used, used_high;
	uint64_t reserved, reserved_high;
	uint64_t threshold; /* kept when pieces are given back */
};

/* 0; -ENOMEM; -ENODEV. */
PHANTOM_API int phantom_pool_alloc(int device, size_t bytes, void **memory);
/* 0; -ENOENT: no piece starts there. */
PHANTOM_API int phantom_pool_free(void *memory);
PHANTOM_API struct phantom_pool_state phantom_pool_state(int device);
PHANTOM_API void phantom_pool_set_threshold(int device, uint64_t bytes);
/* The high marks fall to the present. */
PHANTOM_API void phantom_pool_reset_high(int device);
/* Gives back what is not used, down to `keep`. */
PHANTOM_API void phantom_pool_trim(int device, uint64_t keep);

/* The piece that `address` lies in; the caller holds the lock. */
const struct range *pool_find(const void *address);

#endif
