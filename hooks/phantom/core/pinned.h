/*
 * Host memory that the device could read: allocated so, or registered.
 */
#ifndef PHANTOM_PINNED_H
#define PHANTOM_PINNED_H

#include "phantom.h"
#include "ranges.h"

/* Page aligned, zeroed. 0; -ENOMEM. */
PHANTOM_API int phantom_pinned_alloc(size_t bytes, void **memory);
/* 0; -ENOENT: was not allocated so. */
PHANTOM_API int phantom_pinned_free(void *memory);

/* 0; -EEXIST: some of it is pinned already; -ENOMEM; -EINVAL: nothing. */
PHANTOM_API int phantom_pin(void *memory, size_t bytes);
/* 0; -ENOENT: was not registered so. */
PHANTOM_API int phantom_unpin(void *memory);

/* The range that `address` lies in; the caller holds the lock. */
const struct range *pinned_find(const void *address);

#endif
