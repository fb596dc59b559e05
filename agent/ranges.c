#include "ranges.h"

#include <stdatomic.h>
#include <string.h>

#define SLOTS (4 * RANGES_NAMES)
#define NONE 0 /* of a place in the pool, which begins at 1 */
#define PUSHED 0
#define ENDED UINT64_MAX

/* One open range. Its thread alone writes it, but for the handle. */
struct open {
	uint64_t id;
	const void *domain;
	_Atomic uint64_t handle; /* PUSHED, one that was given, or ENDED */
	uint32_t number;
	_Atomic uint32_t below; /* the place of the next one out, or free one */
	char text[RANGES_TEXT];
};

static struct open pool[RANGES_OPEN + 1];
static _Atomic uint32_t used;	 /* the highest place ever handed out */
static _Atomic uint64_t vacant; /* the free list: uses so far, place */
static _Atomic uint64_t last_id;

/* What the texts with a number are, and where their hashes lead to them. */
static struct {
	uint64_t hash;
	_Atomic uint64_t openings;
	char text[RANGES_TEXT];
} names[RANGES_NAMES];
static _Atomic uint32_t slots[SLOTS];
static _Atomic uint32_t numbered;
static atomic_flag numbering = ATOMIC_FLAG_INIT;

/* Small, and there from the thread's start on: an allocation may look at it. */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD _Atomic uint32_t innermost; /* a place */
OF_THREAD uint32_t current;   /* a number */
OF_THREAD uint32_t started;   /* of the open ones */
OF_THREAD uint32_t unseen;    /* pushed when the pool was empty */

/* ---- the pool ------------------------------------------------------------ */

static uint32_t take_freed(void)
{
	uint64_t head = atomic_load(&vacant);

	while ((uint32_t)head != NONE) {
		uint32_t place = (uint32_t)head;
		uint64_t next = ((head >> 32) + 1) << 32 | pool[place].below;

		if (atomic_compare_exchange_weak(&vacant, &head, next))
			return place;
	}
	return NONE;
}

static uint32_t take_fresh(void)
{
	uint32_t place = atomic_load(&used);

	while (place < RANGES_OPEN)
		if (atomic_compare_exchange_weak(&used, &place, place + 1))
			return place + 1;
	return NONE;
}

static void give(uint32_t place)
{
	uint64_t head = atomic_load(&vacant);

	do
		pool[place].below = (uint32_t)head;
	while (!atomic_compare_exchange_weak(
		&vacant, &head, ((head >> 32) + 1) << 32 | place));
}

/* ---- texts with a number --------------------------------------------------- */

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

		*slot = i;
		if (!number || (names[number].hash == hash &&
				!strcmp(names[number].text, text)))
			return number;
	}
}

static uint32_t number_of(const char *text)
{
	size_t slot;

	return ranges_numbered() ? find(text, hash_of(text), &slot) : 0;
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
	atomic_store_explicit(&slots[slot], number, memory_order_release);
	return number;
}

bool ranges_numbered(void)
{
	return atomic_load_explicit(&numbered, memory_order_relaxed) != 0;
}

uint64_t ranges_openings(uint32_t number)
{
	return atomic_load_explicit(&names[number].openings,
				    memory_order_relaxed);
}

static void count_opening(uint32_t number)
{
	if (number)
		atomic_fetch_add_explicit(&names[number].openings, 1,
					  memory_order_relaxed);
}

/* ---- the ranges of a thread ------------------------------------------------ */

uint32_t ranges_current(void)
{
	return current;
}

static void look_for_current(void)
{
	uint32_t place = innermost;

	while (place != NONE && !pool[place].number)
		place = pool[place].below;
	current = place == NONE ? 0 : pool[place].number;
}

static void open_one(const void *domain, uint64_t handle, const char *text)
{
	uint32_t place = take_freed();
	struct open *open;

	if (place == NONE)
		place = take_fresh();
	if (place == NONE) {
		unseen += handle == PUSHED;
		return;
	}
	open = &pool[place];
	open->id = atomic_fetch_add(&last_id, 1) + 1;
	open->domain = domain;
	open->number = number_of(text);
	open->below = innermost;
	strncpy(open->text, text, RANGES_TEXT - 1);
	open->text[RANGES_TEXT - 1] = '\0';
	atomic_store(&open->handle, handle);
	started += handle != PUSHED;
	innermost = place;
	count_opening(open->number);
	if (open->number)
		current = open->number;
}

/* Close the range that *link leads to. */
static void close_one(_Atomic uint32_t *link)
{
	uint32_t place = atomic_load(link);

	atomic_store(link, atomic_load(&pool[place].below));
	started -= atomic_load(&pool[place].handle) != PUSHED;
	atomic_store(&pool[place].handle, PUSHED);
	give(place);
}

/* Close what was started here and has been ended, perhaps elsewhere. */
static void sweep(void)
{
	_Atomic uint32_t *link = &innermost;

	if (!started)
		return;
	while (*link != NONE)
		if (atomic_load(&pool[*link].handle) == ENDED)
			close_one(link);
		else
			link = &pool[*link].below;
	look_for_current();
}

void ranges_push(const void *domain, const char *text)
{
	sweep();
	open_one(domain, PUSHED, text);
}

void ranges_pop(const void *domain)
{
	_Atomic uint32_t *link = &innermost;

	sweep();
	if (unseen) {
		unseen--;
		return;
	}
	while (*link != NONE && (pool[*link].domain != domain ||
				 atomic_load(&pool[*link].handle) != PUSHED))
		link = &pool[*link].below;
	if (*link == NONE)
		return;
	close_one(link);
	look_for_current();
}

void ranges_start(uint64_t handle, const char *text)
{
	sweep();
	if (handle != PUSHED && handle != ENDED)
		open_one(NULL, handle, text);
}

void ranges_end(uint64_t handle)
{
	uint32_t count = atomic_load(&used);

	if (handle == PUSHED || handle == ENDED)
		return;
	for (uint32_t place = 1; place <= count; place++) {
		uint64_t expected = handle;

		if (atomic_compare_exchange_strong(&pool[place].handle,
						   &expected, ENDED))
			break;
	}
	sweep();
}

size_t ranges_open(struct ckptagent_range *out, size_t n)
{
	size_t count = 0;

	sweep();
	for (uint32_t place = innermost; place != NONE && count < n;
	     place = pool[place].below) {
		out[count].id = pool[place].id;
		memcpy(out[count].text, pool[place].text, RANGES_TEXT);
		count++;
	}
	return count;
}

/* Two threads that number at once: one of them may be told 0. */
uint32_t ranges_number(uint64_t id)
{
	uint32_t place = innermost;

	while (place != NONE && pool[place].id != id)
		place = pool[place].below;
	if (place == NONE || !*pool[place].text)
		return 0;
	if (!pool[place].number && !atomic_flag_test_and_set(&numbering)) {
		pool[place].number = add(pool[place].text);
		count_opening(pool[place].number);
		atomic_flag_clear(&numbering);
		look_for_current();
	}
	return pool[place].number;
}
