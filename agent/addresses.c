#include "addresses.h"

#include <errno.h>
#include <stddef.h>

#include "pages.h"

#define FIRST_BITS 15
#define LEVELS 16

struct slot {
	_Atomic uint64_t address; /* 0: free */
	_Atomic uint64_t held;
};

/*
 * The slots of level k are 2^(FIRST_BITS + k) possible starts of a window and
 * the rest of the last window; their notes follow them in the same pages.
 * `used` counts the entries of a level but the first, so that an empty level
 * is skipped: it is raised before an entry appears and lowered after it went.
 */
struct level {
	struct slot *_Atomic slots;
	_Atomic uint64_t used;
};

struct place {
	struct level *level;
	struct slot *slot;
	_Atomic uint32_t *note;
};

static struct level levels[LEVELS];

static size_t level_slots(int k)
{
	return ((size_t)1 << (FIRST_BITS + k)) + ADDRESSES_WINDOW - 1;
}

static size_t level_bytes(int k)
{
	return level_slots(k) * (sizeof(struct slot) + sizeof(uint32_t));
}

static size_t window_start(int k, uint64_t address)
{
	return (address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >>
	       (64 - FIRST_BITS - k);
}

static struct place place_at(int k, struct slot *slots, size_t i)
{
	_Atomic uint32_t *notes = (_Atomic uint32_t *)(slots + level_slots(k));

	return (struct place){ &levels[k], &slots[i], &notes[i] };
}

/* The slots of a level, mapped if need be; NULL without memory. */
static struct slot *level_open(int k)
{
	struct slot *slots = atomic_load_explicit(&levels[k].slots,
						  memory_order_acquire);
	struct slot *fresh;

	if (slots)
		return slots;
	fresh = pages_map(level_bytes(k));
	if (!fresh)
		return NULL;
	if (atomic_compare_exchange_strong(&levels[k].slots, &slots, fresh))
		return fresh;
	pages_unmap(fresh, level_bytes(k));
	return slots;
}

static bool level_find(int k, struct slot *slots, uint64_t address,
		       struct place *place)
{
	size_t start = window_start(k, address);

	for (size_t i = start; i < start + ADDRESSES_WINDOW; i++) {
		if (atomic_load_explicit(&slots[i].address,
					 memory_order_acquire) != address)
			continue;
		*place = place_at(k, slots, i);
		return true;
	}
	return false;
}

static bool find(uint64_t address, struct place *place)
{
	for (int k = 0; k < LEVELS; k++) {
		struct slot *slots = atomic_load_explicit(&levels[k].slots,
							  memory_order_acquire);

		if (!slots)
			return false;
		if (k > 0 && !atomic_load(&levels[k].used))
			continue;
		if (level_find(k, slots, address, place))
			return true;
	}
	return false;
}

static bool level_claim(int k, struct slot *slots, uint64_t address,
			struct place *place)
{
	size_t start = window_start(k, address);

	for (size_t i = start; i < start + ADDRESSES_WINDOW; i++) {
		uint64_t vacant = 0;

		if (atomic_load_explicit(&slots[i].address,
					 memory_order_relaxed))
			continue;
		if (!atomic_compare_exchange_strong(&slots[i].address, &vacant,
						    address))
			continue;
		*place = place_at(k, slots, i);
		return true;
	}
	return false;
}

static int claim(uint64_t address, struct place *place)
{
	for (int k = 0; k < LEVELS; k++) {
		struct slot *slots = level_open(k);

		if (!slots)
			return -ENOMEM;
		if (k > 0)
			atomic_fetch_add(&levels[k].used, 1);
		if (level_claim(k, slots, address, place))
			return 0;
		if (k > 0)
			atomic_fetch_sub(&levels[k].used, 1);
	}
	return -ENOMEM;
}

static struct address read_place(const struct place *place)
{
	return (struct address){
		atomic_load_explicit(&place->slot->held, memory_order_relaxed),
		atomic_load_explicit(place->note, memory_order_relaxed),
	};
}

int addresses_put(uint64_t address, struct address value)
{
	struct place place;
	int error = claim(address, &place);

	if (error)
		return error;
	atomic_store_explicit(&place.slot->held, value.held,
			      memory_order_relaxed);
	if (value.note)
		atomic_store_explicit(place.note, value.note,
				      memory_order_relaxed);
	return 0;
}

bool addresses_take(uint64_t address, struct address *value)
{
	struct place place;

	if (!find(address, &place))
		return false;
	*value = read_place(&place);
	if (value->note)
		atomic_store_explicit(place.note, 0, memory_order_relaxed);
	atomic_store_explicit(&place.slot->held, 0, memory_order_relaxed);
	atomic_store_explicit(&place.slot->address, 0, memory_order_release);
	if (place.level != levels)
		atomic_fetch_sub(&place.level->used, 1);
	return true;
}

bool addresses_get(uint64_t address, struct address *value)
{
	struct place place;

	if (!find(address, &place))
		return false;
	*value = read_place(&place);
	return true;
}

_Atomic uint32_t *addresses_note(uint64_t address)
{
	struct place place;

	return find(address, &place) ? place.note : NULL;
}
