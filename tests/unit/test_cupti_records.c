/* CUPTI's records, from buffers that are filled here. */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "cupti_records.h"

#define RECORD_BYTES 208 /* of every kind, here */
#define BUFFERS 16

static int next(uint8_t *buffer, size_t valid_bytes, void **record)
{
	uint8_t *at = *record;

	at = at ? at + RECORD_BYTES : buffer;
	if (at >= buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = at;
	return CUPTI_SUCCESS;
}

static uint8_t *request(void)
{
	uint8_t *buffer;
	size_t bytes, most;

	records_requested(&buffer, &bytes, &most);
	assert_int_equal(!buffer, !bytes);
	return buffer;
}

static void complete(uint8_t *buffer, int records)
{
	records_completed(NULL, 0, buffer, 1 << 20,
			  (size_t)records * RECORD_BYTES);
}

static uint8_t *put(uint8_t *at, uint32_t kind, size_t where,
		    uint32_t correlation)
{
	memset(at, 0, RECORD_BYTES);
	memcpy(at, &kind, sizeof(kind));
	memcpy(at + where, &correlation, sizeof(correlation));
	return at;
}

static void put_link(uint8_t *at, uint32_t kind, uint64_t region,
		     uint32_t correlation)
{
	put(at, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
	    CUPTI_EXTERNAL_CORRELATION, correlation);
	memcpy(at + CUPTI_EXTERNAL_KIND, &kind, sizeof(kind));
	memcpy(at + CUPTI_EXTERNAL_ID, &region, sizeof(region));
}

static void put_fill(uint8_t *at, uint64_t nanoseconds, uint32_t correlation)
{
	uint64_t start = 7, end = start + nanoseconds;

	put(at, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_COPY_CORRELATION,
	    correlation);
	memcpy(at + CUPTI_START, &start, sizeof(start));
	memcpy(at + CUPTI_END, &end, sizeof(end));
}

static uint64_t sum(uint64_t region)
{
	uint64_t nanoseconds;

	records_sum(1, &region, &nanoseconds);
	return nanoseconds;
}

static int begin(void **state)
{
	(void)state;
	return records_begin(next);
}

static void correlation_numbers_may_come_in_any_order(void **state)
{
	uint8_t *buffer = request();
	uint64_t first = records_region(0), second = records_region(0);

	(void)state;
	put_link(buffer, 5, first, 9);
	put_link(buffer + RECORD_BYTES, 5, second, 4);
	put_link(buffer + 2 * RECORD_BYTES, 5, first, 6);
	put_fill(buffer + 3 * RECORD_BYTES, 10, 4);
	put_fill(buffer + 4 * RECORD_BYTES, 20, 9);
	put_fill(buffer + 5 * RECORD_BYTES, 40, 6);
	complete(buffer, 6);
	records_end();
	assert_int_equal(sum(first), 60);
	assert_false(records_lost());
}

static void numbers_that_others_put_on_their_stacks_are_not_ours(void **state)
{
	uint8_t *buffer = request();
	uint64_t region = records_region(0);

	(void)state;
	put_link(buffer, 3, region, 4);
	put_fill(buffer + RECORD_BYTES, 10, 4);
	complete(buffer, 2);
	records_end();
	assert_int_equal(sum(region), 0);
}

static void a_buffer_that_comes_after_the_end_is_not_read(void **state)
{
	uint8_t *buffer = request();
	uint64_t region = records_region(0);

	(void)state;
	put_link(buffer, 5, region, 4);
	put_fill(buffer + RECORD_BYTES, 10, 4);
	records_end();
	complete(buffer, 2);
	assert_int_equal(sum(region), 0);
	assert_int_equal(records_buffers_out(), 0);
}

static void a_buffer_that_came_back_is_lent_again(void **state)
{
	uint8_t *buffers[BUFFERS];

	(void)state;
	for (int i = 0; i < BUFFERS; i++)
		assert_non_null(buffers[i] = request());
	assert_int_equal(records_buffers_out(), BUFFERS);
	assert_false(records_lost());
	assert_null(request());
	assert_true(records_lost());
	complete(buffers[3], 0);
	assert_ptr_equal(request(), buffers[3]);
	for (int i = 0; i < BUFFERS; i++)
		complete(buffers[i], 0);
	assert_int_equal(records_buffers_out(), 0);
}

static void regions_beyond_what_there_is_room_for_are_lost(void **state)
{
	uint64_t last = 1;

	(void)state;
	for (int i = 0; i < 1 << 16; i++)
		last = records_region(0);
	assert_int_not_equal(last, 0);
	assert_false(records_lost());
	assert_int_equal(records_region(last), 0);
	assert_true(records_lost());
	assert_int_equal(records_begin(next), 0);
	assert_int_equal(records_region(0), last + 1);
	assert_false(records_lost());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			correlation_numbers_may_come_in_any_order, begin),
		cmocka_unit_test_setup(
			numbers_that_others_put_on_their_stacks_are_not_ours,
			begin),
		cmocka_unit_test_setup(
			a_buffer_that_comes_after_the_end_is_not_read, begin),
		cmocka_unit_test_setup(a_buffer_that_came_back_is_lent_again,
				       begin),
		cmocka_unit_test_setup(
			regions_beyond_what_there_is_room_for_are_lost, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
