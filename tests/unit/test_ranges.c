/* Open ranges, their numbers and their bytes. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ledger.h"
#include "range_bytes.h"
#include "range_names.h"
#include "ranges.h"

#define DEVICE 1

static char domain;

/* The texts of this thread's open ranges, innermost first, in one line. */
static const char *open_texts(void)
{
	static __thread struct ckptagent_range range[RANGES_OPEN];
	static __thread char line[4096];
	size_t n = ranges_open(range, RANGES_OPEN);

	*line = '\0';
	for (size_t i = 0; i < n && i < 8; i++) {
		strcat(line, i ? " " : "");
		strcat(line, range[i].text);
	}
	return line;
}

static uint32_t number_innermost(void)
{
	struct ckptagent_range range;

	return ranges_open(&range, 1) ? ranges_number(range.id) : 0;
}

static void *open_on_another_thread(void *texts)
{
	strcpy(texts, open_texts());
	ranges_push(NULL, "theirs");
	strcat(texts, open_texts());
	return NULL;
}

static void nothing_is_seen_before_the_beginning(void **state)
{
	(void)state;
	ranges_push(NULL, "early");
	ranges_pop(NULL);
	ranges_start(1, "early");
	ranges_end(1);
	assert_int_equal(ranges_number(1), 0);
	assert_int_equal(range_names_openings(1), 0);
	assert_string_equal(open_texts(), "");
	assert_int_equal(ranges_begin(), 0);
	assert_int_equal(ranges_begin(), 0);
	assert_int_equal(range_bytes_begin(), 0);
	assert_string_equal(open_texts(), "");
}

static void pushed_ranges_nest_on_their_thread(void **state)
{
	pthread_t thread;
	char texts[64];

	(void)state;
	ranges_push(NULL, "outer");
	ranges_push(NULL, "inner");
	assert_string_equal(open_texts(), "inner outer");
	pthread_create(&thread, NULL, open_on_another_thread, texts);
	pthread_join(thread, NULL);
	assert_string_equal(texts, "theirs");
	ranges_pop(NULL);
	assert_string_equal(open_texts(), "outer");
	ranges_pop(NULL);
	ranges_pop(NULL);
	assert_string_equal(open_texts(), "");
}

static void a_pop_ends_the_innermost_of_its_own_domain(void **state)
{
	(void)state;
	ranges_push(&domain, "one");
	ranges_push(NULL, "two");
	ranges_pop(&domain);
	assert_string_equal(open_texts(), "two");
	ranges_pop(&domain);
	assert_string_equal(open_texts(), "two");
	ranges_pop(NULL);
}

static void *end_it(void *handle)
{
	ranges_end((uintptr_t)handle);
	return NULL;
}

static void a_started_range_may_end_anywhere_and_in_any_order(void **state)
{
	pthread_t thread;

	(void)state;
	ranges_start(7, "seven");
	ranges_push(NULL, "pushed");
	ranges_start(8, "eight");
	ranges_pop(NULL);
	assert_string_equal(open_texts(), "eight seven");
	pthread_create(&thread, NULL, end_it, (void *)7);
	pthread_join(thread, NULL);
	assert_string_equal(open_texts(), "eight");
	ranges_end(7);
	ranges_end(0);
	ranges_end(UINT64_MAX);
	ranges_end(8);
	assert_string_equal(open_texts(), "");
	ranges_start(0, "nothing");
	ranges_start(UINT64_MAX, "nothing");
	assert_string_equal(open_texts(), "");
}

static void ranges_beyond_the_pool_are_not_seen_and_pops_still_match(void **state)
{
	(void)state;
	ranges_push(NULL, "first");
	for (int i = 0; i < RANGES_OPEN + 10; i++)
		ranges_push(NULL, "many");
	ranges_start(9, "started");
	ranges_end(9);
	for (int i = 0; i < RANGES_OPEN + 10; i++)
		ranges_pop(NULL);
	assert_string_equal(open_texts(), "first");
	ranges_pop(NULL);
	for (int i = 0; i < 10 * RANGES_OPEN; i++) {
		ranges_push(NULL, "again");
		assert_string_equal(open_texts(), "again");
		ranges_pop(NULL);
	}
}

static void a_long_text_is_cut(void **state)
{
	char text[2 * RANGES_TEXT];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ranges_push(NULL, text);
	assert_int_equal(strlen(open_texts()), RANGES_TEXT - 1);
	ranges_pop(NULL);
}

static void allocate(uint64_t address, uint64_t bytes)
{
	assert_int_equal(ledger_alloc(DEVICE, address, bytes), 0);
}

static void bytes_belong_to_the_innermost_range_with_a_number(void **state)
{
	uint32_t outer, inner;

	(void)state;
	ranges_push(NULL, "bytes outer");
	allocate(0x1000, 1);
	outer = number_innermost();
	assert_int_not_equal(outer, 0);
	assert_int_equal(number_innermost(), outer);
	allocate(0x2000, 10);
	ranges_push(NULL, "no number");
	allocate(0x3000, 100);
	ranges_push(NULL, "bytes inner");
	inner = number_innermost();
	assert_int_not_equal(inner, outer);
	allocate(0x4000, 1000);
	assert_int_equal(ledger_alloc(LEDGER_CACHED + 1, 0x4001, 9), 0);
	ranges_pop(NULL);
	allocate(0x5000, 10000);
	ranges_pop(NULL);
	ranges_pop(NULL);
	allocate(0x6000, 100000);
	ranges_push(NULL, "bytes inner");
	allocate(0x7000, 1000000);
	ranges_pop(NULL);
	assert_int_equal(range_bytes_live(DEVICE, outer), 10110);
	assert_int_equal(range_bytes_live(DEVICE, inner), 1001000);
	assert_int_equal(range_bytes_live(LEDGER_CACHED + 1, inner), 0);
	for (uint64_t address = 0x1000; address <= 0x7000; address += 0x1000)
		ledger_free(address);
	ledger_free(0x4001);
	assert_int_equal(range_bytes_live(DEVICE, outer), 0);
	assert_int_equal(range_bytes_live(DEVICE, inner), 0);
}

static void a_watched_allocation_keeps_its_range_and_its_device(void **state)
{
	uint32_t number;

	(void)state;
	ranges_push(NULL, "watched");
	number = number_innermost();
	allocate(0x1000, 64);
	assert_int_equal(ledger_tape_begin(DEVICE), 0);
	assert_int_equal(ledger_watch(0x1000), 0);
	ranges_pop(NULL);
	assert_int_equal(range_bytes_live(DEVICE, number), 64);
	ledger_free(0x1000);
	assert_int_equal(range_bytes_live(DEVICE, number), 0);
	assert_int_equal(ledger_live(DEVICE), 0);
}

static void what_each_range_held_at_the_peak_is_known_after_it(void **state)
{
	uint32_t a, b;

	(void)state;
	ledger_peak_reset(DEVICE);
	ranges_push(NULL, "peak a");
	a = number_innermost();
	allocate(0x1000, 100);
	ranges_pop(NULL);
	ranges_push(NULL, "peak b");
	b = number_innermost();
	allocate(0x2000, 50);
	allocate(0x3000, 7);
	ledger_free(0x3000);
	ledger_free(0x1000);
	allocate(0x4000, 20);
	ranges_pop(NULL);
	assert_int_equal(ledger_peak(DEVICE), 157);
	assert_int_equal(range_bytes_at_peak(DEVICE, a), 100);
	assert_int_equal(range_bytes_at_peak(DEVICE, b), 57);
	allocate(0x5000, 1000);
	assert_int_equal(range_bytes_at_peak(DEVICE, a), 0);
	assert_int_equal(range_bytes_at_peak(DEVICE, b), 70);
	ledger_peak_reset(DEVICE);
	ledger_free(0x4000);
	assert_int_equal(range_bytes_at_peak(DEVICE, b), 70);
	ledger_free(0x2000);
	ledger_free(0x5000);
}

static void numbers_run_out_without_harm(void **state)
{
	char text[RANGES_TEXT];
	uint32_t last = 0;

	(void)state;
	for (int i = 0; i < 2 * RANGES_NAMES; i++) {
		snprintf(text, sizeof(text), "step %d", i);
		ranges_push(NULL, text);
		last = number_innermost();
		assert_true(last < RANGES_NAMES);
		assert_int_equal(ranges_current(), last);
		ranges_pop(NULL);
	}
	assert_int_equal(last, 0);
	ranges_push(NULL, "step 1");
	assert_int_not_equal(ranges_current(), 0);
	ranges_pop(NULL);
	ranges_push(NULL, "");
	assert_int_equal(number_innermost(), 0);
	ranges_pop(NULL);
	assert_int_equal(ranges_number(12345678), 0);
}

#define THREADS 8
#define ROUNDS 20000

static void *push_and_end(void *number)
{
	uintptr_t base = 100 + (uintptr_t)number * ROUNDS;
	uint64_t errors = 0;

	for (uintptr_t i = 0; i < ROUNDS; i++) {
		ranges_push(NULL, "thread");
		ranges_start(base + i, "started");
		errors += !!strcmp(open_texts(), "started thread");
		ranges_end(base + i);
		ranges_pop(NULL);
		errors += !!*open_texts();
	}
	return errors ? &domain : NULL;
}

static void many_threads_share_the_pool(void **state)
{
	pthread_t thread[THREADS];
	void *result;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, push_and_end, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &result);
		assert_null(result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_seen_before_the_beginning),
		cmocka_unit_test(pushed_ranges_nest_on_their_thread),
		cmocka_unit_test(a_pop_ends_the_innermost_of_its_own_domain),
		cmocka_unit_test(
			a_started_range_may_end_anywhere_and_in_any_order),
		cmocka_unit_test(
			ranges_beyond_the_pool_are_not_seen_and_pops_still_match),
		cmocka_unit_test(a_long_text_is_cut),
		cmocka_unit_test(
			bytes_belong_to_the_innermost_range_with_a_number),
		cmocka_unit_test(
			a_watched_allocation_keeps_its_range_and_its_device),
		cmocka_unit_test(
			what_each_range_held_at_the_peak_is_known_after_it),
		cmocka_unit_test(numbers_run_out_without_harm),
		cmocka_unit_test(many_threads_share_the_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
