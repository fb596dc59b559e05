#include "ranges.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "pages.h"
#include "range_names.h"

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

static struct open *pool; /* RANGES_OPEN + 1 of them, see ranges_begin() */
static pthread_key_t key;
static _Atomic bool begun;

static _Atomic uint32_t used;	/* the highest place ever handed out */
static _Atomic uint64_t vacant; /* the free list: uses so far, place */
static _Atomic uint64_t last_id;

/*
 * What a thread has open. It is the value of a key, in the bits of a pointer:
 * thread-local storage is not for a library that may be loaded late.
 */
struct thread {
	uint32_t innermost; /* a place */
	uint32_t current;   /* a number */
	uint32_t started;   /* of the open ones */
	uint32_t unseen;    /* pushed when the pool was empty */
};

#define FIELD_BITS 12
#define FIELD_MASK ((UINT64_C(1) << FIELD_BITS) - 1)

_Static_assert(RANGES_OPEN <= FIELD_MASK && RANGES_NAMES <= FIELD_MASK, "bits");

static struct thread thread_now(void)
{
	uint64_t bits = (uintptr_t)pthread_getspecific(key);

	return (struct thread){
		.innermost = bits & FIELD_MASK,
		.current = bits >> FIELD_BITS & FIELD_MASK,
		.started = bits >> 2 * FIELD_BITS & FIELD_MASK,
		.unseen = (uint32_t)(bits >> 3 * FIELD_BITS),
	};
}

static void thread_set(const struct thread *thread)
{
	uint64_t bits = thread->innermost |
			(uint64_t)thread->current << FIELD_BITS |
			(uint64_t)thread->started << 2 * FIELD_BITS |
			(uint64_t)thread->unseen << 3 * FIELD_BITS;

	pthread_setspecific(key, (void *)(uintptr_t)bits);
}

int ranges_begin(void)
{
	static atomic_flag once = ATOMIC_FLAG_INIT;
	void *mapped;

	if (atomic_load(&begun))
		return 0;
	if (atomic_flag_test_and_set(&once))
		return -EAGAIN;
	mapped = pages_map((RANGES_OPEN + 1) * sizeof(*pool));
	if (!mapped || range_names_begin() || pthread_key_create(&key, NULL))
		return -ENOMEM;
	pool = mapped;
	atomic_store(&begun, true);
	return 0;
}

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

/* ---- the ranges of a thread ------------------------------------------------ */

uint32_t ranges_current(void)
{
	return range_names_any() ? thread_now().current : 0;
}

static void look_for_current(struct thread *thread)
{
	uint32_t place = thread->innermost;

	while (place != NONE && !pool[place].number)
		place = pool[place].below;
	thread->current = place == NONE ? 0 : pool[place].number;
}

static void fill(struct open *open, const void *domain, uint64_t handle,
		 const char *text)
{
	open->id = atomic_fetch_add(&last_id, 1) + 1;
	open->domain = domain;
	open->number = range_names_number(text);
	strncpy(open->text, text, RANGES_TEXT - 1);
	open->text[RANGES_TEXT - 1] = '\0';
	atomic_store(&open->handle, handle);
	range_names_count(open->number);
}

static void open_one(struct thread *thread, const void *domain, uint64_t handle,
		     const char *text)
{
	uint32_t place = take_freed();

	if (place == NONE)
		place = take_fresh();
	if (place == NONE) {
		thread->unseen += handle == PUSHED;
		return;
	}
	fill(&pool[place], domain, handle, text);
	atomic_store(&pool[place].below, thread->innermost);
	thread->innermost = place;
	thread->started += handle != PUSHED;
	if (pool[place].number)
		thread->current = pool[place].number;
}

/* Take a range out of its thread's; `above` is the one further in, or NONE. */
static void close_one(struct thread *thread, uint32_t place, uint32_t above)
{
	uint32_t below = pool[place].below;

	if (above == NONE)
		thread->innermost = below;
	else
		atomic_store(&pool[above].below, below);
	thread->started -= atomic_load(&pool[place].handle) != PUSHED;
	atomic_store(&pool[place].handle, PUSHED);
	give(place);
}

/* The thread's ranges without what was started here and has been ended since. */
static struct thread thread_swept(void)
{
	struct thread thread = thread_now();
	uint32_t above = NONE, place, below;

	if (!thread.started)
		return thread;
	for (place = thread.innermost; place != NONE; place = below) {
		below = pool[place].below;
		if (atomic_load(&pool[place].handle) == ENDED)
			close_one(&thread, place, above);
		else
			above = place;
	}
	look_for_current(&thread);
	thread_set(&thread);
	return thread;
}

static void open_here(const void *domain, uint64_t handle, const char *text)
{
	struct thread thread;

	if (!atomic_load(&begun))
		return;
	thread = thread_swept();
	open_one(&thread, domain, handle, text);
	thread_set(&thread);
}

void ranges_push(const void *domain, const char *text)
{
	open_here(domain, PUSHED, text);
}

static void pop_innermost(struct thread *thread, const void *domain)
{
	uint32_t place = thread->innermost, above = NONE;

	while (place != NONE && (pool[place].domain != domain ||
				 atomic_load(&pool[place].handle) != PUSHED)) {
		above = place;
		place = pool[place].below;
	}
	if (place == NONE)
		return;
	close_one(thread, place, above);
	look_for_current(thread);
}

void ranges_pop(const void *domain)
{
	struct thread thread;

	if (!atomic_load(&begun))
		return;
	thread = thread_swept();
	if (thread.unseen)
		thread.unseen--;
	else
		pop_innermost(&thread, domain);
	thread_set(&thread);
}

void ranges_start(uint64_t handle, const char *text)
{
	if (handle != PUSHED && handle != ENDED)
		open_here(NULL, handle, text);
}

void ranges_end(uint64_t handle)
{
	uint32_t count = atomic_load(&used);

	if (handle == PUSHED || handle == ENDED || !atomic_load(&begun))
		return;
	for (uint32_t place = 1; place <= count; place++) {
		uint64_t expected = handle;

		if (atomic_compare_exchange_strong(&pool[place].handle,
						   &expected, ENDED))
			break;
	}
	thread_swept();
}

size_t ranges_open(struct ckptagent_range *out, size_t n)
{
	size_t count = 0;
	uint32_t place;

	if (!atomic_load(&begun))
		return 0;
	for (place = thread_swept().innermost; place != NONE && count < n;
	     place = pool[place].below) {
		out[count].id = pool[place].id;
		memcpy(out[count].text, pool[place].text, RANGES_TEXT);
		count++;
	}
	return count;
}

static uint32_t number_place(uint32_t place)
{
	struct open *open = &pool[place];

	if (!open->number && *open->text) {
		open->number = range_names_add(open->text);
		range_names_count(open->number);
	}
	return open->number;
}

uint32_t ranges_number(uint64_t id)
{
	struct thread thread;
	uint32_t place, number;

	if (!atomic_load(&begun))
		return 0;
	thread = thread_now();
	place = thread.innermost;
	while (place != NONE && pool[place].id != id)
		place = pool[place].below;
	if (place == NONE)
		return 0;
	number = number_place(place);
	look_for_current(&thread);
	thread_set(&thread);
	return number;
}
