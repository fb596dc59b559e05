/*
 * The devices: which one a thread uses, and how much of each is taken.
 */
#ifndef PHANTOM_DEVICE_H
#define PHANTOM_DEVICE_H

#include "phantom.h"

#include <stdbool.h>
#include <stdint.h>

/* The calling thread's, 0 at first: an index among the visible ones. */
PHANTOM_API int phantom_device(void);
/* 0; -ENODEV: there is no such device. */
PHANTOM_API int phantom_set_device(int device);
PHANTOM_API bool phantom_device_exists(int device);

/*
 * Takes bytes from a device; 0; -ENOMEM: not so much is free. The caller holds
 * the lock of the books.
 */
int device_charge(int device, uint64_t bytes);
void device_discharge(int device, uint64_t bytes);

/* What a process can take from any device: its memory less the context's. */
PHANTOM_API uint64_t phantom_room(void);

/* What a program could still get: total less context less taken. */
PHANTOM_API uint64_t phantom_free_bytes(int device);

/* Whether an address lies where device memory is, in use or not. */
PHANTOM_API bool phantom_is_device(const void *address);

/* What lies where. A device has 1 TiB of each of the first two windows. */
#define WINDOW_BYTES ((uintptr_t)1 << 40)
#define WINDOW_MEMORY ((uintptr_t)0x200000000000)
#define WINDOW_POOLS ((uintptr_t)0x300000000000)
#define WINDOW_VIRTUAL ((uintptr_t)0x400000000000)
#define WINDOW_END ((uintptr_t)0x500000000000)

#endif
