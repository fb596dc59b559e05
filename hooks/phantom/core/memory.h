/*
 * Device memory in whole grains, as cudaMalloc gives it.
 *
 * It is host memory that no page stands behind until it is written, at the
 * lowest free address of the device's window, so that the same job sees the
 * same addresses in every run; it reads as zeros at first.
 */
#ifndef PHANTOM_MEMORY_H
#define PHANTOM_MEMORY_H

#include "phantom.h"
#include "ranges.h"

#include <stdbool.h>

/* 0; -ENOMEM: the device has not so much left; -ENODEV. */
PHANTOM_API int phantom_memory_alloc(int device, size_t bytes, void **memory);

/* The same, on the context's account: the device has no less for it. */
PHANTOM_API int phantom_memory_of_context(int device, size_t bytes,
					  void **memory);

/* 0; -ENOENT: nothing starts there. */
PHANTOM_API int phantom_memory_free(void *memory);

/* The block that `address` lies in; the caller holds the lock. */
const struct range *memory_find(const void *address);

#endif
