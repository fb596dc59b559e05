/*
 * A sorted set of address ranges that do not overlap.
 *
 * The caller holds the lock of the books. Ranges are kept by value; the set
 * owns its array, which it gets from malloc.
 */
#ifndef PHANTOM_RANGES_H
#define PHANTOM_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
	uintptr_t start, end; /* [start, end) */
	uint64_t bytes;	      /* the caller's */
	void *owner;	      /* the caller's */
	int device;	      /* the caller's */
};

struct ranges {
	struct range *items;
	size_t count, room;
};

/* 0; -EEXIST: overlaps another; -ENOMEM. */
int ranges_add(struct ranges *ranges, const struct range *range);

/*
 * Puts `range` (whose end - start says how long) at the lowest free place of
 * [low, high) that is a multiple of `align`, with `gap` free bytes after it.
 * 0, with start and end set; -ENOMEM: no such place, or no memory.
 */
int ranges_place(struct ranges *ranges, struct range *range, uintptr_t low,
		 uintptr_t high, size_t align, size_t gap);

/* The range that `address` lies in, or NULL; good until the next change. */
struct range *ranges_find(const struct ranges *ranges, uintptr_t address);

/* Takes out the range that starts there. 0; -ENOENT: none does. */
int ranges_remove(struct ranges *ranges, uintptr_t start,
		  struct range *removed);

#endif
