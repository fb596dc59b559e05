#include "check.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger.h"

/* The ledger has one state a process: each test takes a device of its own. */

static void alloc(int device, uint64_t address, uint64_t bytes)
{
	assert_int_equal(ledger_alloc(device, address, bytes), 0);
}

static void live_is_what_was_allocated_and_not_freed(void **state)
{
	(void)state;
	alloc(1, 0x1000, 100);
	alloc(1, 0x2000, 50);
	assert_int_equal(ledger_live(1), 150);
	ledger_free(0x1000);
	assert_int_equal(ledger_live(1), 50);
	assert_int_equal(ledger_size(0x2000), 50);
	assert_int_equal(ledger_size(0x1000), 0);
	ledger_free(0x2000);
	assert_int_equal(ledger_live(1), 0);
}

static void the_peak_outlives_what_made_it_until_the_reset(void **state)
{
	(void)state;
	alloc(2, 0x1000, 100);
	alloc(2, 0x2000, 50);
	ledger_free(0x1000);
	alloc(2, 0x1000, 20);
	assert_int_equal(ledger_peak(2), 150);
	ledger_peak_reset(2);
	assert_int_equal(ledger_peak(2), 70);
	alloc(2, 0x3000, 5);
	assert_int_equal(ledger_peak(2), 75);
	ledger_free(0x1000);
	ledger_free(0x2000);
	ledger_free(0x3000);
	assert_int_equal(ledger_peak(2), 75);
}

static void an_unknown_free_is_counted_and_changes_nothing(void **state)
{
	uint64_t before = ledger_unknown_frees();

	(void)state;
	alloc(3, 0x1000, 10);
	ledger_free(0xdead0000);
	ledger_free(0x1000);
	ledger_free(0x1000);
	assert_int_equal(ledger_unknown_frees(), before + 2);
	assert_int_equal(ledger_live(3), 0);
}

static void a_repeated_allocation_replaces_the_first(void **state)
{
	uint64_t before = ledger_repeats();

	(void)state;
	alloc(4, 0x1000, 10);
	alloc(4, 0x1000, 30);
	assert_int_equal(ledger_repeats(), before + 1);
	assert_int_equal(ledger_live(4), 30);
	assert_int_equal(ledger_peak(4), 30);
	ledger_free(0x1000);
	assert_int_equal(ledger_live(4), 0);
}

static void null_is_no_allocation(void **state)
{
	uint64_t events = ledger_events();
	uint64_t unknown = ledger_unknown_frees();

	(void)state;
	alloc(5, 0, 100);
	ledger_free(0);
	assert_int_equal(ledger_live(5), 0);
	assert_int_equal(ledger_events(), events);
	assert_int_equal(ledger_unknown_frees(), unknown);
}

static void every_event_is_counted_once(void **state)
{
	uint64_t before = ledger_events();

	(void)state;
	alloc(6, 0x1000, 1);
	ledger_free(0x1000);
	ledger_free(0x1000);
	assert_int_equal(ledger_events(), before + 3);
}

static void devices_do_not_mix(void **state)
{
	(void)state;
	alloc(7, 0x1000, 10);
	alloc(8, 0x2000, 20);
	assert_int_equal(ledger_live(7), 10);
	assert_int_equal(ledger_live(8), 20);
	ledger_free(0x2000);
	assert_int_equal(ledger_live(7), 10);
	assert_int_equal(ledger_live(8), 0);
	ledger_free(0x1000);
}

static void an_address_may_come_back_on_another_device(void **state)
{
	(void)state;
	alloc(14, 0x1000, 10);
	ledger_free(0x1000);
	alloc(0, 0x1000, 20);
	assert_int_equal(ledger_live(14), 0);
	assert_int_equal(ledger_live(0), 20);
	ledger_free(0x1000);
	assert_int_equal(ledger_live(0), 0);
}

static void a_device_that_is_not_there_reads_as_zero(void **state)
{
	static const int devices[] = { -1, LEDGER_DEVICES, 1 << 20 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		alloc(devices[i], 0x9000, 10);
		ledger_peak_reset(devices[i]);
		assert_int_equal(ledger_live(devices[i]), 0);
		assert_int_equal(ledger_peak(devices[i]), 0);
		assert_int_equal(ledger_size(0x9000), 0);
	}
}

static void a_block_owns_what_is_allocated_while_it_is_set(void **state)
{
	(void)state;
	assert_int_equal(ledger_block(7), 0);
	alloc(9, 0x1000, 10);
	assert_int_equal(ledger_block(65535), 7);
	alloc(9, 0x2000, 20);
	assert_int_equal(ledger_block(0), 65535);
	alloc(9, 0x3000, 40);
	assert_int_equal(ledger_block_live(7), 10);
	assert_int_equal(ledger_block_live(65535), 20);
	ledger_free(0x1000);
	ledger_free(0x2000);
	ledger_free(0x3000);
	assert_int_equal(ledger_block_live(7), 0);
	assert_int_equal(ledger_block_live(65535), 0);
	assert_int_equal(ledger_block(65536), 0);
	assert_int_equal(ledger_block(0), 0);
}

static void an_allocation_beyond_48_bits_is_counted_as_the_most(void **state)
{
	(void)state;
	alloc(10, 0x1000, UINT64_MAX);
	assert_int_equal(ledger_live(10), LEDGER_BYTES_MAX);
	ledger_free(0x1000);
	assert_int_equal(ledger_live(10), 0);
}

/* Pages of the process that are in memory; ours are counted before and after. */
static uint64_t resident_pages(void)
{
	unsigned long size, resident = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu %lu", &size, &resident), 2);
	fclose(statm);
	return resident;
}

static void a_million_live_allocations_take_64_bytes_each(void **state)
{
	enum {
		LIVE = 1000000
	};
	uint64_t before = resident_pages(), used;

	(void)state;
	for (uint64_t i = 1; i <= LIVE; i++)
		alloc(11, 0x7f0000000000 + i * 64, i);
	used = (resident_pages() - before) * (uint64_t)sysconf(_SC_PAGESIZE);
	assert_int_equal(ledger_live(11), (uint64_t)LIVE * (LIVE + 1) / 2);
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
	assert_true(used <= (uint64_t)LIVE * 64 + (2 << 20));
#endif
#endif
	(void)used;
	for (uint64_t i = 1; i <= LIVE; i++)
		assert_int_equal(ledger_size(0x7f0000000000 + i * 64), i);
	for (uint64_t i = LIVE; i >= 1; i--)
		ledger_free(0x7f0000000000 + i * 64);
	assert_int_equal(ledger_live(11), 0);
}

/* A mirror of what should be live, against 200,000 random events. */
static void random_events_agree_with_a_plain_array(void **state)
{
	enum {
		ADDRESSES = 3000
	};
	static uint64_t size[ADDRESSES];
	uint64_t seed = 42, live = 0, peak = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t k = next_random(&seed) % ADDRESSES;
		uint64_t address = 0x550000000000 + k * 16;

		if (size[k]) {
			ledger_free(address);
			live -= size[k];
			size[k] = 0;
		} else {
			size[k] = 1 + next_random(&seed) % 100000;
			alloc(12, address, size[k]);
			live += size[k];
			peak = live > peak ? live : peak;
		}
		assert_int_equal(ledger_live(12), live);
	}
	assert_int_equal(ledger_peak(12), peak);
	for (uint64_t k = 0; k < ADDRESSES; k++)
		assert_int_equal(ledger_size(0x550000000000 + k * 16), size[k]);
}

static void a_forked_child_goes_on_with_what_was_live(void **state)
{
	int status;
	pid_t child;

	(void)state;
	alloc(13, 0x1000, 10);
	child = fork();
	if (!child) {
		bool right = ledger_live(13) == 10;

		ledger_free(0x1000);
		right = right && ledger_live(13) == 0 &&
			!ledger_alloc(13, 0x2000, 7) && ledger_live(13) == 7;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ledger_live(13), 10);
	ledger_free(0x1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_is_what_was_allocated_and_not_freed),
		cmocka_unit_test(
			the_peak_outlives_what_made_it_until_the_reset),
		cmocka_unit_test(
			an_unknown_free_is_counted_and_changes_nothing),
		cmocka_unit_test(a_repeated_allocation_replaces_the_first),
		cmocka_unit_test(null_is_no_allocation),
		cmocka_unit_test(every_event_is_counted_once),
		cmocka_unit_test(devices_do_not_mix),
		cmocka_unit_test(an_address_may_come_back_on_another_device),
		cmocka_unit_test(a_device_that_is_not_there_reads_as_zero),
		cmocka_unit_test(
			a_block_owns_what_is_allocated_while_it_is_set),
		cmocka_unit_test(
			an_allocation_beyond_48_bits_is_counted_as_the_most),
		cmocka_unit_test(a_million_live_allocations_take_64_bytes_each),
		cmocka_unit_test(random_events_agree_with_a_plain_array),
		cmocka_unit_test(a_forked_child_goes_on_with_what_was_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
