/* What a process takes from a CUDA device, from made-up calls. */
#include "check.h"

#include <stdint.h>

#include "ledger.h"
#include "taken.h"

#define DEVICE 3
#define A UINT64_C(0x200000000000)
#define B UINT64_C(0x200000200000)
#define C UINT64_C(0x200000400000)

static int start(void **state)
{
	(void)state;
	taken_free(A);
	taken_free(B);
	taken_free(C);
	ledger_free(A);
	taken_reserved(DEVICE, 0);
	taken_peak_reset(DEVICE);
	return 0;
}

static void each_byte_is_in_one_source(void **state)
{
	(void)state;
	assert_int_equal(taken_alloc(DEVICE, A, 100, true), 0);
	assert_int_equal(taken_alloc(DEVICE, B, 30, false), 0);
	taken_reserved(DEVICE, 100);
	assert_int_equal(taken_cached(DEVICE), 100);
	assert_int_equal(taken_outside(DEVICE), 30);
	assert_int_equal(taken_live(DEVICE), 130);
}

static void what_is_mapped_is_what_the_allocator_says_beyond_its_calls(void **state)
{
	(void)state;
	assert_int_equal(taken_alloc(DEVICE, A, 100, true), 0);
	taken_reserved(DEVICE, 150);
	assert_int_equal(taken_cached(DEVICE), 150);
	taken_reserved(DEVICE, 120);
	assert_int_equal(taken_cached(DEVICE), 120);
	assert_int_equal(taken_peak(DEVICE), 150);
}

static void a_segment_and_its_first_tensor_share_an_address(void **state)
{
	(void)state;
	assert_int_equal(taken_alloc(DEVICE, A, 100, true), 0);
	assert_int_equal(ledger_alloc(LEDGER_CUDA + DEVICE, A, 60), 0);
	assert_int_equal(ledger_live(LEDGER_CUDA + DEVICE), 60);
	assert_int_equal(taken_live(DEVICE), 100);
	ledger_free(A);
	assert_int_equal(taken_live(DEVICE), 100);
	taken_free(A);
	assert_int_equal(taken_live(DEVICE), 0);
	assert_int_equal(ledger_live(LEDGER_CUDA + DEVICE), 0);
}

static void a_free_of_what_nobody_took_is_no_unknown_free(void **state)
{
	uint64_t before = ledger_unknown_frees();

	(void)state;
	taken_free(A);
	taken_free(0);
	assert_int_equal(ledger_unknown_frees(), before);
}

static void the_peak_is_of_all_sources_together(void **state)
{
	(void)state;
	assert_int_equal(taken_alloc(DEVICE, A, 100, true), 0);
	taken_free(A);
	assert_int_equal(taken_alloc(DEVICE, B, 70, false), 0);
	assert_int_equal(taken_peak(DEVICE), 100);
	taken_peak_reset(DEVICE);
	assert_int_equal(taken_peak(DEVICE), 70);
	assert_int_equal(taken_alloc(DEVICE, C, 5, true), 0);
	assert_int_equal(taken_peak(DEVICE), 75);
}

static void cached_memory_belongs_to_no_block(void **state)
{
	(void)state;
	ledger_block(9);
	assert_int_equal(taken_alloc(DEVICE, A, 100, true), 0);
	assert_int_equal(ledger_block_live(9), 0);
	assert_int_equal(taken_alloc(DEVICE, B, 30, false), 0);
	assert_int_equal(ledger_block_live(9), 30);
	ledger_block(0);
	taken_free(B);
	assert_int_equal(ledger_block_live(9), 0);
}

static void devices_that_are_none_take_nothing(void **state)
{
	static const int devices[] = { -1, LEDGER_CUDA_DEVICES, 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		assert_int_equal(taken_alloc(devices[i], C, 1, false), 0);
		taken_reserved(devices[i], 7);
		assert_int_equal(taken_live(devices[i]), 0);
		assert_int_equal(taken_peak(devices[i]), 0);
	}
	assert_int_equal(ledger_size(C | 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_byte_is_in_one_source, start),
		cmocka_unit_test_setup(
			what_is_mapped_is_what_the_allocator_says_beyond_its_calls,
			start),
		cmocka_unit_test_setup(
			a_segment_and_its_first_tensor_share_an_address, start),
		cmocka_unit_test_setup(
			a_free_of_what_nobody_took_is_no_unknown_free, start),
		cmocka_unit_test_setup(the_peak_is_of_all_sources_together,
				       start),
		cmocka_unit_test_setup(cached_memory_belongs_to_no_block, start),
		cmocka_unit_test_setup(devices_that_are_none_take_nothing,
				       start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
