/*
 * The books of the phantom device, without any library over them. The device is
 * small, so that it can be filled: see main.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "device.h"
#include "handle.h"
#include "memory.h"
#include "place.h"
#include "pool.h"
#include "ranges.h"
#include "settings.h"
#include "virtual.h"

#define GRAINS 64
#define GRAIN PHANTOM_GRAIN

static uint64_t free_grains(void)
{
	return phantom_free_bytes(0) / GRAIN;
}

/* ---- ranges, against one byte for each address */

#define SPACE 400

struct space {
	struct ranges ranges;
	unsigned char used[SPACE]; /* the number of the range, or 0 */
};

static bool fits(const struct space *space, size_t at, size_t bytes)
{
	for (size_t i = at; i < at + bytes; i++)
		if (i >= SPACE || space->used[i])
			return false;
	return true;
}

/* The lowest place that ranges_place may choose, or SPACE. */
static size_t lowest(const struct space *space, size_t bytes, size_t align,
		     size_t gap)
{
	size_t at = 0;

	while (at < SPACE && !fits(space, at, bytes + gap))
		at += align;
	return at < SPACE ? at : SPACE;
}

static void place_one(struct space *space, uint64_t *seed, int number)
{
	size_t bytes = next_random(seed) % 30 + 1;
	size_t align = (size_t)1 << next_random(seed) % 5;
	struct range range = { .end = bytes, .device = number };
	size_t expected = lowest(space, bytes, align, 0);
	int status = ranges_place(&space->ranges, &range, 0, SPACE, align, 0);

	assert_int_equal(status, expected == SPACE ? -ENOMEM : 0);
	if (status)
		return;
	assert_int_equal(range.start, expected);
	memset(space->used + expected, number, bytes);
}

static void remove_one(struct space *space, uint64_t *seed)
{
	size_t at = next_random(seed) % SPACE;
	bool starts = space->used[at] &&
		      (!at || space->used[at - 1] != space->used[at]);
	struct range removed;
	int status = ranges_remove(&space->ranges, at, &removed);

	assert_int_equal(status, starts ? 0 : -ENOENT);
	if (!status)
		memset(space->used + at, 0, removed.end - removed.start);
}

static void compare(const struct space *space)
{
	for (size_t at = 0; at < SPACE; at++) {
		const struct range *found = ranges_find(&space->ranges, at);

		assert_int_equal(found ? found->device : 0, space->used[at]);
	}
}

static void ranges_are_placed_as_a_search_of_every_address_would(void **state)
{
	struct space space = { 0 };
	uint64_t seed = 42;

	(void)state;
	for (int step = 0; step < 3000; step++) {
		if (next_random(&seed) % 2)
			place_one(&space, &seed, step % 255 + 1);
		else
			remove_one(&space, &seed);
		compare(&space);
	}
	free(space.ranges.items);
}

static void a_gap_is_kept_on_both_sides(void **state)
{
	struct ranges ranges = { 0 };
	struct range first = { .end = 10 }, second = { .end = 10 };
	struct range between = { .end = 1 }, removed;

	(void)state;
	assert_int_equal(ranges_place(&ranges, &first, 0, 100, 1, 5), 0);
	assert_int_equal(ranges_place(&ranges, &second, 0, 100, 1, 5), 0);
	assert_int_equal(second.start, 15);
	assert_int_equal(ranges_remove(&ranges, 0, &removed), 0);
	assert_int_equal(ranges_place(&ranges, &between, 4, 100, 1, 5), 0);
	assert_int_equal(between.start, 4);
	free(ranges.items);
}

static void ranges_never_overlap(void **state)
{
	struct ranges ranges = { 0 };
	struct range range = { .start = 10, .end = 20 };

	(void)state;
	assert_int_equal(ranges_add(&ranges, &range), 0);
	range = (struct range){ .start = 19, .end = 30 };
	assert_int_equal(ranges_add(&ranges, &range), -EEXIST);
	range = (struct range){ .start = 0, .end = 11 };
	assert_int_equal(ranges_add(&ranges, &range), -EEXIST);
	range = (struct range){ .start = 0, .end = 10 };
	assert_int_equal(ranges_add(&ranges, &range), 0);
	free(ranges.items);
}

/* ---- memory */

static void a_device_is_full_at_its_last_grain(void **state)
{
	void *memory[GRAINS], *more;

	(void)state;
	for (int i = 0; i < GRAINS; i++)
		assert_int_equal(phantom_memory_alloc(0, 1, &memory[i]), 0);
	assert_int_equal(free_grains(), 0);
	assert_int_equal(phantom_memory_alloc(0, 1, &more), -ENOMEM);
	assert_int_equal(phantom_memory_free(memory[7]), 0);
	assert_int_equal(phantom_memory_free(memory[7]), -ENOENT);
	assert_int_equal(phantom_memory_alloc(0, GRAIN + 1, &more), -ENOMEM);
	assert_int_equal(phantom_memory_alloc(0, GRAIN, &more), 0);
	assert_ptr_equal(more, memory[7]);
	for (int i = 0; i < GRAINS; i++)
		assert_int_equal(phantom_memory_free(memory[i]), 0);
	assert_int_equal(free_grains(), GRAINS);
}

static void an_address_is_known_to_its_last_byte(void **state)
{
	void *memory;
	struct phantom_place place;

	(void)state;
	assert_int_equal(phantom_memory_alloc(1, GRAIN + 1, &memory), 0);
	place = phantom_place((char *)memory + 2 * GRAIN - 1);
	assert_int_equal(place.side, PHANTOM_DEVICE);
	assert_int_equal(place.device, 1);
	assert_int_equal(place.start, (uintptr_t)memory);
	assert_int_equal(place.bytes, 2 * GRAIN);
	place = phantom_place((char *)memory + 2 * GRAIN);
	assert_int_equal(place.side, PHANTOM_UNKNOWN);
	assert_int_equal(phantom_memory_free(memory), 0);
	assert_int_equal(phantom_place(memory).side, PHANTOM_UNKNOWN);
}

static void a_contexts_memory_is_not_taken_from_the_device(void **state)
{
	void *memory;

	(void)state;
	assert_int_equal(phantom_memory_of_context(0, 5, &memory), 0);
	assert_int_equal(free_grains(), GRAINS);
	assert_int_equal(phantom_memory_free(memory), 0);
	assert_int_equal(free_grains(), GRAINS);
}

static void what_is_no_device_has_no_memory(void **state)
{
	void *memory;

	(void)state;
	assert_int_equal(phantom_memory_alloc(2, 1, &memory), -ENODEV);
	assert_int_equal(phantom_memory_alloc(-1, 1, &memory), -ENODEV);
	assert_int_equal(phantom_pool_alloc(2, 1, &memory), -ENODEV);
	assert_int_equal(phantom_set_device(2), -ENODEV);
	assert_int_equal(phantom_memory_alloc(0, 0, &memory), -ENOMEM);
	assert_int_equal(phantom_memory_alloc(0, SIZE_MAX, &memory), -ENOMEM);
}

static void *allocate_and_free(void *argument)
{
	uint64_t seed = (uintptr_t)argument;
	void *memory[4] = { NULL };

	for (int i = 0; i < 2000; i++) {
		void **slot = &memory[next_random(&seed) % 4];

		if (*slot)
			phantom_memory_free(*slot);
		*slot = NULL;
		if (next_random(&seed) % 3)
			phantom_memory_alloc(0,
					     next_random(&seed) % (3 * GRAIN),
					     slot);
		if (*slot)
			*(volatile char *)*slot = 1;
	}
	for (int i = 0; i < 4; i++)
		if (memory[i])
			phantom_memory_free(memory[i]);
	return NULL;
}

static void threads_leave_the_books_whole(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, allocate_and_free,
			       (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(free_grains(), GRAINS);
}

/* ---- virtual memory */

static void memory_is_charged_until_its_last_mapping_is_gone(void **state)
{
	struct phantom_physical *physical;
	uintptr_t address;

	(void)state;
	assert_int_equal(phantom_reserve(4 * GRAIN, 0, &address), 0);
	assert_int_equal(free_grains(), GRAINS);
	assert_int_equal(phantom_create(0, GRAIN, &physical), 0);
	assert_int_equal(phantom_map(address, GRAIN, physical), 0);
	assert_int_equal(phantom_map(address + 2 * GRAIN, GRAIN, physical), 0);
	assert_int_equal(phantom_allow(address, 3 * GRAIN), -EINVAL);
	assert_int_equal(phantom_allow(address, GRAIN), 0);
	memset((void *)address, 1, GRAIN);
	phantom_release(physical);
	assert_int_equal(free_grains(), GRAINS - 1);
	assert_int_equal(phantom_unmap(address, GRAIN), 0);
	assert_int_equal(free_grains(), GRAINS - 1);
	assert_int_equal(phantom_unreserve(address, 4 * GRAIN), -EINVAL);
	assert_int_equal(phantom_unmap(address + 2 * GRAIN, GRAIN), 0);
	assert_int_equal(free_grains(), GRAINS);
	assert_false(phantom_handle_is(physical, PHANTOM_PHYSICAL));
	assert_int_equal(phantom_unreserve(address, 4 * GRAIN), 0);
}

/* ---- pool */

static void a_pool_keeps_what_it_was_told_to(void **state)
{
	struct phantom_pool_state pool;
	void *large, *small, *other;

	(void)state;
	assert_int_equal(phantom_pool_alloc(0, 40 << 20, &large), 0);
	assert_int_equal(phantom_pool_alloc(0, 1, &small), 0);
	pool = phantom_pool_state(0);
	assert_int_equal(pool.used, (40 << 20) + 512);
	assert_int_equal(pool.reserved, 64 << 20);
	assert_int_equal(free_grains(), GRAINS - 32);
	phantom_pool_set_threshold(0, 48 << 20);
	assert_int_equal(phantom_pool_free(large), 0);
	assert_int_equal(phantom_pool_free(large), -ENOENT);
	assert_int_equal(phantom_pool_state(0).reserved, 48 << 20);
	phantom_pool_trim(0, 0);
	assert_int_equal(phantom_pool_state(0).reserved, 32 << 20);
	assert_int_equal(phantom_pool_state(0).reserved_high, 64 << 20);
	phantom_pool_reset_high(0);
	assert_int_equal(phantom_pool_state(0).reserved_high, 32 << 20);
	assert_int_equal(phantom_pool_alloc(0, 128 << 20, &large), -ENOMEM);
	assert_int_equal(phantom_memory_alloc(0, 1, &other), 0);
	assert_int_equal(phantom_pool_alloc(0, 125 << 20, &large), 0);
	assert_int_equal(free_grains(), 0);
	assert_int_equal(phantom_pool_free(large), 0);
	assert_int_equal(phantom_memory_free(other), 0);
	phantom_pool_set_threshold(0, 0);
	assert_int_equal(phantom_pool_free(small), 0);
	assert_int_equal(free_grains(), GRAINS);
}

/* ---- handles and contents */

static void a_handle_is_known_by_its_kind_until_its_end(void **state)
{
	void *handle = phantom_handle_new(PHANTOM_EVENT, 100);
	void *again;

	(void)state;
	assert_true(phantom_handle_is(handle, PHANTOM_EVENT));
	assert_false(phantom_handle_is(handle, PHANTOM_STREAM));
	phantom_handle_end(handle, PHANTOM_STREAM);
	assert_true(phantom_handle_is(handle, PHANTOM_EVENT));
	memset((char *)handle + sizeof(struct phantom_handle), 1, 80);
	phantom_handle_end(handle, PHANTOM_EVENT);
	assert_false(phantom_handle_is(handle, PHANTOM_EVENT));
	again = phantom_handle_new(PHANTOM_STREAM, 128);
	assert_ptr_equal(again, handle);
	assert_int_equal(((char *)again)[99], 0);
	phantom_handle_end(again, PHANTOM_STREAM);
	assert_false(phantom_handle_is(NULL, PHANTOM_STREAM));
	assert_false(phantom_handle_is((void *)2, PHANTOM_STREAM));
	assert_null(phantom_handle_new(PHANTOM_EVENT,
				       PHANTOM_HANDLE_BYTES_MAX + 1));
}

static void a_scalar_is_what_the_host_wrote_there_or_zero(void **state)
{
	char *memory;
	int written = 7, read = 1, part[4] = { 1, 2, 3, 4 };

	(void)state;
	assert_int_equal(phantom_memory_alloc(0, 1, (void **)&memory), 0);
	phantom_copy(memory, &written, sizeof(written));
	phantom_copy(&read, memory, sizeof(read));
	assert_int_equal(read, 7);
	phantom_copy(memory + 512, memory, sizeof(read));
	phantom_copy(&read, memory + 512, sizeof(read));
	assert_int_equal(read, 7);
	phantom_copy(memory + 1024, part, sizeof(part));
	phantom_copy(&read, memory + 1024, sizeof(read));
	assert_int_equal(read, 0);
	phantom_copy(memory, memory + 1024, sizeof(read));
	phantom_copy(&read, memory, sizeof(read));
	assert_int_equal(read, 0);
	phantom_fill(memory, 1, sizeof(read));
	phantom_copy(&read, memory, sizeof(read));
	assert_int_equal(read, 0x01010101);
	assert_int_equal(phantom_memory_free(memory), 0);
}

static void what_is_too_long_is_not_copied_and_zeros_always_are(void **state)
{
	size_t bytes = 3 * GRAIN;
	char *memory, *host = malloc(bytes);

	(void)state;
	memset(host, 1, bytes);
	assert_int_equal(phantom_memory_alloc(0, bytes, (void **)&memory), 0);
	phantom_copy(memory, host, bytes);
	assert_int_equal(memory[bytes / 2], 0);
	phantom_copy(memory + 100, host, 1 << 20);
	assert_int_equal(memory[100], 1);
	assert_int_equal(memory[99 + (1 << 20)], 1);
	phantom_fill(memory + 101, 0, bytes - 101);
	assert_int_equal(memory[100], 1);
	assert_int_equal(memory[101], 0);
	assert_int_equal(memory[99 + (1 << 20)], 0);
	assert_int_equal(phantom_memory_free(memory), 0);
	free(host);
}

/* TSan and valgrind have the device's fixed places for themselves. */
#define SKIPPED 77

int main(void)
{
	const char *places = getenv("FIXED_PLACES");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			ranges_are_placed_as_a_search_of_every_address_would),
		cmocka_unit_test(a_gap_is_kept_on_both_sides),
		cmocka_unit_test(ranges_never_overlap),
		cmocka_unit_test(a_device_is_full_at_its_last_grain),
		cmocka_unit_test(an_address_is_known_to_its_last_byte),
		cmocka_unit_test(
			a_contexts_memory_is_not_taken_from_the_device),
		cmocka_unit_test(what_is_no_device_has_no_memory),
		cmocka_unit_test(threads_leave_the_books_whole),
		cmocka_unit_test(
			memory_is_charged_until_its_last_mapping_is_gone),
		cmocka_unit_test(a_pool_keeps_what_it_was_told_to),
		cmocka_unit_test(a_handle_is_known_by_its_kind_until_its_end),
		cmocka_unit_test(a_scalar_is_what_the_host_wrote_there_or_zero),
		cmocka_unit_test(
			what_is_too_long_is_not_copied_and_zeros_always_are),
	};

	setenv("CKPT_PHANTOM_MEMORY", "128M", 1); /* GRAINS */
	setenv("CKPT_PHANTOM_CONTEXT", "0", 1);
	setenv("CKPT_PHANTOM_COUNT", "2", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (places && !strcmp(places, "no"))
		return SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
