/*
 * A table from addresses to what is known about the allocation there.
 *
 * Lock-free, without malloc, and whole after a fork at any instruction: an
 * entry is claimed by one compare-and-swap, freed by one store, and never
 * moves. Levels of doubling size are searched in order; in each, an address
 * may only stand in a window of ADDRESSES_WINDOW slots, so there are no
 * tombstones and a table that was once large stays fast.
 *
 * Threads: any number may call every function. The allocator hands an address
 * to one owner at a time, so calls about the same address never overlap.
 * Memory: 20 bytes a slot, two to three slots for each address at the highest
 * count so far, at least 640 KiB when in use.
 */
#ifndef CKPTAGENT_ADDRESSES_H
#define CKPTAGENT_ADDRESSES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ADDRESSES_WINDOW 16

/* `held` and `note` are the caller's; an entry's note usually is 0. */
struct address {
	uint64_t held;
	uint32_t note;
};

/* 0, or -ENOMEM. The address must not be 0 and not be in the table. */
int addresses_put(uint64_t address, struct address value);

/* Remove an address and hand out what was known. False: it is not there. */
bool addresses_take(uint64_t address, struct address *value);

/* False: it is not there. */
bool addresses_get(uint64_t address, struct address *value);

/* The note of an address, valid until it is taken, or NULL. */
_Atomic uint32_t *addresses_note(uint64_t address);

#endif
