#include "range_names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "pages.h"

#define SLOTS (4 * RANGES_NAMES)

struct name {
	uint64_t hash;
	_Atomic uint64_t openings;
	char text[RANGES_TEXT];
};

/* Mapped by range_names_begin(); slots lead from hashes to numbers. */
static struct name *names;
static _Atomic uint32_t *slots;
static _Atomic uint32_t numbered;
static atomic_flag numbering = ATOMIC_FLAG_INIT;

int range_names_begin(void)
{
	names = pages_map(RANGES_NAMES * sizeof(*names) +
			  SLOTS * sizeof(*slots));
	if (!names)
		return -ENOMEM;
	slots = (_Atomic uint32_t *)(names + RANGES_NAMES);
	return 0;
}

/* FNV-1a, 64 bits (Fowler, Noll and Vo). */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) *
		       UINT64_C(0x100000001b3);
	return hash;
}

/* The number of a text, or 0 with the slot where it is to stand. */
static uint32_t find(const char *text, uint64_t hash, size_t *slot)
{
	for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
		uint32_t number = atomic_load_explicit(&slots[i],
						       memory_order_acquire);
		const struct name *name = &names[number];

		*slot = i;
		if (!number || (name->hash == hash && !strcmp(name->text, text)))
			return number;
	}
}

uint32_t range_names_number(const char *text)
{
	size_t slot;

	return range_names_any() ? find(text, hash_of(text), &slot) : 0;
}

static uint32_t add(const char *text)
{
	uint64_t hash = hash_of(text);
	uint32_t number = atomic_load(&numbered) + 1;
	size_t slot;
	uint32_t known = find(text, hash, &slot);

	if (known || number == RANGES_NAMES)
		return known;
	names[number].hash = hash;
	strcpy(names[number].text, text);
	atomic_store(&numbered, number);
	atomic_store_explicit(&slots[slot], number,
			      memory_order_release);
	return number;
}

bool range_names_any(void)
{
	return atomic_load_explicit(&numbered, memory_order_relaxed) != 0;
}

uint32_t range_names_add(const char *text)
{
	uint32_t number;

	if (atomic_flag_test_and_set(&numbering))
		return 0;
	number = add(text);
	atomic_flag_clear(&numbering);
	return number;
}

uint64_t range_names_openings(uint32_t number)
{
	return range_names_any() ?
		       atomic_load_explicit(&names[number].openings,
					    memory_order_relaxed) :
		       0;
}

void range_names_count(uint32_t number)
{
	if (number)
		atomic_fetch_add_explicit(&names[number].openings, 1,
					  memory_order_relaxed);
}
