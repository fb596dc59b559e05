/* A profiler after us, with and without a buffer of ours in between. */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "cupti_client.h"
#include "cupti_records.h"

static uint8_t theirs[4096];
static size_t room;
static const uint8_t *came;
static size_t came_bytes;

static void request(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
	*buffer = room ? theirs : NULL;
	*bytes = room;
	*records_max = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer,
		     size_t bytes, size_t valid_bytes)
{
	(void)context;
	(void)stream;
	(void)bytes;
	came = buffer;
	came_bytes = valid_bytes;
}

static uint8_t *ours(void)
{
	uint8_t *buffer;
	size_t bytes, most;

	assert_int_equal(records_begin(NULL), 0);
	records_requested(&buffer, &bytes, &most);
	records_end();
	assert_non_null(buffer);
	return buffer;
}

static int start(void **state)
{
	(void)state;
	room = sizeof(theirs);
	came = NULL;
	memset(theirs, 0, sizeof(theirs));
	return 0;
}

static void without_a_buffer_of_ours_its_callbacks_are_registered(void **state)
{
	cupti_requested_fn *requested = request;
	cupti_completed_fn *completed = complete;

	(void)state;
	client_callbacks(&requested, &completed);
	assert_ptr_equal(requested, request);
	assert_ptr_equal(completed, complete);
}

static void records_in_our_buffer_reach_it_in_its_own(void **state)
{
	cupti_requested_fn *requested = request;
	cupti_completed_fn *completed = complete;
	uint8_t *buffer = ours();

	(void)state;
	client_callbacks(&requested, &completed);
	memset(buffer, 7, 100);
	completed(NULL, 0, buffer, 1 << 20, 100);
	assert_ptr_equal(came, theirs);
	assert_int_equal(came_bytes, 100);
	assert_int_equal(theirs[99], 7);
	assert_int_equal(theirs[100], 0);
	assert_int_equal(records_buffers_out(), 0);
}

static void its_own_buffers_pass_as_they_are(void **state)
{
	cupti_requested_fn *requested = request;
	cupti_completed_fn *completed = complete;
	uint8_t *buffer = ours(), other[8];
	size_t bytes, most;

	(void)state;
	client_callbacks(&requested, &completed);
	completed(NULL, 0, other, sizeof(other), 3);
	assert_ptr_equal(came, other);
	assert_int_equal(came_bytes, 3);
	requested(&buffer, &bytes, &most);
	assert_ptr_equal(buffer, theirs);
	completed(NULL, 0, ours(), 1 << 20, 0);
}

static void what_it_has_no_room_for_is_not_written(void **state)
{
	cupti_requested_fn *requested = request;
	cupti_completed_fn *completed = complete;
	uint8_t *buffer = ours();

	(void)state;
	client_callbacks(&requested, &completed);
	room = 50;
	memset(buffer, 7, 100);
	completed(NULL, 0, buffer, 1 << 20, 100);
	assert_ptr_equal(came, theirs);
	assert_int_equal(came_bytes, 0);
	assert_int_equal(theirs[0], 0);
	room = 0;
	came_bytes = 77;
	completed(NULL, 0, ours(), 1 << 20, 100);
	assert_int_equal(came_bytes, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			without_a_buffer_of_ours_its_callbacks_are_registered,
			start),
		cmocka_unit_test_setup(
			records_in_our_buffer_reach_it_in_its_own, start),
		cmocka_unit_test_setup(its_own_buffers_pass_as_they_are, start),
		cmocka_unit_test_setup(what_it_has_no_room_for_is_not_written,
				       start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
