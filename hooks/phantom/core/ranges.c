#include "ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

/* The position of the first range that ends above `address`. */
static size_t position(const struct ranges *ranges, uintptr_t address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->items[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int make_room(struct ranges *ranges)
{
	size_t room = ranges->room ? 2 * ranges->room : FIRST_ROOM;
	struct range *items;

	if (ranges->count < ranges->room)
		return 0;
	items = realloc(ranges->items, room * sizeof(*items));
	if (!items)
		return -ENOMEM;
	ranges->items = items;
	ranges->room = room;
	return 0;
}

static int insert(struct ranges *ranges, size_t at, const struct range *range)
{
	int status = make_room(ranges);

	if (status)
		return status;
	memmove(ranges->items + at + 1, ranges->items + at,
		(ranges->count - at) * sizeof(*range));
	ranges->items[at] = *range;
	ranges->count++;
	return 0;
}

int ranges_add(struct ranges *ranges, const struct range *range)
{
	size_t at = position(ranges, range->start);

	if (at < ranges->count && ranges->items[at].start < range->end)
		return -EEXIST;
	return insert(ranges, at, range);
}

static uintptr_t round_up(uintptr_t address, size_t align)
{
	return (address + align - 1) / align * align;
}

int ranges_place(struct ranges *ranges, struct range *range, uintptr_t low,
		 uintptr_t high, size_t align, size_t gap)
{
	uintptr_t length = range->end - range->start;
	uintptr_t place = round_up(low, align);
	size_t at = position(ranges, low);

	for (; at < ranges->count; at++) {
		const struct range *next = &ranges->items[at];

		if (place + length + gap <= next->start)
			break;
		place = round_up(next->end + gap, align);
	}
	if (place > high || length + gap > high - place)
		return -ENOMEM;
	range->start = place;
	range->end = place + length;
	return insert(ranges, at, range);
}

struct range *ranges_find(const struct ranges *ranges, uintptr_t address)
{
	size_t at = position(ranges, address);

	if (at == ranges->count || ranges->items[at].start > address)
		return NULL;
	return &ranges->items[at];
}

int ranges_remove(struct ranges *ranges, uintptr_t start, struct range *removed)
{
	struct range *found = ranges_find(ranges, start);

	if (!found || found->start != start)
		return -ENOENT;
	*removed = *found;
	ranges->count--;
	memmove(found, found + 1,
		(ranges->items + ranges->count - found) * sizeof(*found));
	return 0;
}
