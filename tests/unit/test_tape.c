#include "check.h"

#include <string.h>

#include "ledger.h"
#include "tape.h"

/* Each test has a device of its own: see test_ledger.c. */

static void alloc(int device, uint64_t address, uint64_t bytes)
{
	assert_int_equal(ledger_alloc(device, address, bytes), 0);
}

static struct ckptagent_segment segment[TAPE_SEGMENTS];
static struct ckptagent_storage storage[16];

static void assert_segment(size_t i, char mark, int call, uint64_t live,
			   uint64_t peak)
{
	assert_int_equal(segment[i].mark, mark);
	assert_int_equal(segment[i].call, call);
	assert_int_equal(segment[i].live, live);
	assert_int_equal(segment[i].peak, peak);
}

static void nothing_is_recorded_without_a_tape(void **state)
{
	(void)state;
	alloc(1, 0x1000, 10);
	assert_int_equal(tape_mark('F', 0), -1);
	assert_int_equal(ledger_watch(0x1000), -1);
	assert_int_equal(tape_segments(segment, 16), 0);
	assert_int_equal(tape_storages(storage, 16), 0);
	ledger_free(0x1000);
}

static void a_segment_has_its_opening_and_its_highest_bytes(void **state)
{
	(void)state;
	alloc(2, 0x1000, 10);
	assert_int_equal(ledger_tape_begin(2), 0);
	alloc(2, 0x2000, 20);
	ledger_free(0x2000);
	assert_int_equal(tape_mark('F', 0), 1);
	alloc(2, 0x2000, 5);
	assert_int_equal(tape_mark('E', 0), 2);
	ledger_free(0x2000);
	assert_int_equal(tape_mark('D', 0), 3);
	tape_end();
	assert_int_equal(tape_segments(segment, 16), 5);
	assert_segment(0, 'S', -1, 10, 30);
	assert_segment(1, 'F', 0, 10, 15);
	assert_segment(2, 'E', 0, 15, 15);
	assert_segment(3, 'D', 0, 10, 10);
	assert_segment(4, 'Z', -1, 10, 10);
	ledger_free(0x1000);
}

static void a_tape_stays_as_it_ended(void **state)
{
	(void)state;
	alloc(3, 0x1000, 10);
	ledger_tape_begin(3);
	assert_int_equal(ledger_watch(0x1000), 0);
	tape_end();
	ledger_free(0x1000);
	alloc(3, 0x2000, 1000);
	assert_int_equal(tape_mark('F', 0), -1);
	assert_int_equal(ledger_watch(0x2000), -1);
	assert_int_equal(tape_segments(segment, 16), 2);
	assert_segment(1, 'Z', -1, 10, 10);
	assert_int_equal(tape_storages(storage, 16), 1);
	assert_int_equal(storage[0].freed, -1);
	ledger_free(0x2000);
}

static void only_the_device_of_the_tape_is_on_it(void **state)
{
	(void)state;
	ledger_tape_begin(4);
	alloc(5, 0x1000, 10);
	assert_int_equal(ledger_watch(0x1000), -1);
	tape_end();
	tape_segments(segment, 16);
	assert_segment(0, 'S', -1, 0, 0);
	ledger_free(0x1000);
}

static void a_watched_storage_tells_where_it_was_freed(void **state)
{
	(void)state;
	ledger_tape_begin(6);
	alloc(6, 0x1000, 10);
	alloc(6, 0x2000, 20);
	assert_int_equal(ledger_watch(0x1000), 0);
	assert_int_equal(ledger_watch(0x2000), 1);
	assert_int_equal(ledger_watch(0x1000), 0);
	assert_int_equal(ledger_watch(0x3000), -1);
	assert_int_equal(ledger_watch(0), -1);
	tape_mark('E', 0);
	ledger_free(0x1000);
	tape_mark('D', 0);
	alloc(6, 0x1000, 30);
	assert_int_equal(ledger_watch(0x1000), 2);
	tape_end();
	assert_int_equal(tape_storages(storage, 16), 3);
	assert_int_equal(storage[0].bytes, 10);
	assert_int_equal(storage[0].freed, 1);
	assert_int_equal(storage[1].bytes, 20);
	assert_int_equal(storage[1].freed, -1);
	assert_int_equal(storage[2].bytes, 30);
	ledger_free(0x1000);
	ledger_free(0x2000);
}

static void a_new_tape_watches_anew(void **state)
{
	(void)state;
	alloc(7, 0x1000, 10);
	alloc(7, 0x2000, 20);
	ledger_tape_begin(7);
	assert_int_equal(ledger_watch(0x1000), 0);
	assert_int_equal(ledger_watch(0x2000), 1);
	ledger_tape_begin(7);
	assert_int_equal(ledger_watch(0x2000), 0);
	ledger_free(0x1000);
	tape_mark('B', 0);
	ledger_free(0x2000);
	tape_end();
	assert_int_equal(tape_storages(storage, 16), 1);
	assert_int_equal(storage[0].bytes, 20);
	assert_int_equal(storage[0].freed, 1);
}

static void a_late_free_opens_x_at_the_next_allocation_once(void **state)
{
	(void)state;
	ledger_tape_begin(8);
	alloc(8, 0x1000, 10);
	alloc(8, 0x2000, 10);
	ledger_watch(0x1000);
	ledger_watch(0x2000);
	tape_mark('D', 3);
	ledger_free(0x1000);
	ledger_free(0x2000);
	alloc(8, 0x3000, 4);
	alloc(8, 0x4000, 4);
	tape_end();
	assert_int_equal(tape_segments(segment, 16), 4);
	assert_segment(1, 'D', 3, 20, 20);
	assert_segment(2, 'X', -1, 0, 8);
	ledger_free(0x3000);
	ledger_free(0x4000);
}

static void a_free_where_dropping_happens_opens_no_x(void **state)
{
	(void)state;
	ledger_tape_begin(9);
	alloc(9, 0x1000, 10);
	ledger_watch(0x1000);
	tape_mark('E', 0);
	ledger_free(0x1000);
	alloc(9, 0x2000, 4);
	tape_end();
	assert_int_equal(tape_segments(segment, 16), 3);
	assert_int_equal(segment[2].mark, 'Z');
	ledger_free(0x2000);
}

static void a_mark_after_the_late_free_takes_the_place_of_x(void **state)
{
	(void)state;
	ledger_tape_begin(10);
	alloc(10, 0x1000, 10);
	ledger_watch(0x1000);
	ledger_free(0x1000);
	tape_mark('F', 0);
	alloc(10, 0x2000, 4);
	tape_end();
	assert_int_equal(tape_segments(segment, 16), 3);
	assert_int_equal(segment[1].mark, 'F');
	ledger_free(0x2000);
}

static void a_full_tape_says_so_and_a_new_one_is_not_full(void **state)
{
	(void)state;
	ledger_tape_begin(11);
	for (int i = 1; i < TAPE_SEGMENTS; i++)
		assert_int_equal(tape_mark('F', i), i);
	assert_false(tape_full());
	assert_int_equal(tape_mark('E', 0), -1);
	assert_true(tape_full());
	assert_int_equal(tape_segments(segment, TAPE_SEGMENTS), TAPE_SEGMENTS);
	tape_end();
	ledger_tape_begin(11);
	assert_false(tape_full());
	alloc(11, 0x1000, 10);
	tape_end();
	assert_int_equal(tape_segments(segment, 16), 2);
	assert_segment(0, 'S', -1, 0, 10);
	ledger_free(0x1000);
}

static void a_late_free_on_a_full_tape_loses_an_x_and_says_so(void **state)
{
	(void)state;
	ledger_tape_begin(11);
	alloc(11, 0x1000, 10);
	ledger_watch(0x1000);
	for (int i = 1; i < TAPE_SEGMENTS; i++)
		tape_mark('D', i);
	ledger_free(0x1000);
	assert_false(tape_full());
	alloc(11, 0x1000, 10);
	assert_true(tape_full());
	tape_end();
	ledger_free(0x1000);
}

static void too_many_storages_make_the_tape_full(void **state)
{
	(void)state;
	ledger_tape_begin(12);
	for (uint64_t i = 1; i <= TAPE_STORAGES + 1; i++)
		alloc(12, i * 64, 1);
	for (uint64_t i = 1; i <= TAPE_STORAGES; i++)
		assert_int_equal(ledger_watch(i * 64), i - 1);
	assert_false(tape_full());
	assert_int_equal(ledger_watch((TAPE_STORAGES + 1) * 64), -1);
	assert_true(tape_full());
	assert_int_equal(tape_storages(storage, 16), TAPE_STORAGES);
	tape_end();
	for (uint64_t i = 1; i <= TAPE_STORAGES + 1; i++)
		ledger_free(i * 64);
}

static void an_abandoned_tape_records_nothing_more(void **state)
{
	(void)state;
	ledger_tape_begin(13);
	tape_abandon();
	assert_int_equal(tape_mark('F', 0), -1);
	alloc(13, 0x1000, 10);
	tape_segments(segment, 16);
	assert_segment(0, 'S', -1, 0, 0);
	ledger_free(0x1000);
}

static void a_mark_during_an_allocation_leaves_it_in_both_segments(void **state)
{
	_Atomic uint64_t live = 10;
	uint64_t before;

	(void)state;
	assert_int_equal(tape_begin(15, &live), 0);
	before = tape_before(15);
	live += 90;
	live -= 90; /* freed again by another thread */
	tape_mark('F', 0);
	tape_after(15, before, 100);
	assert_int_equal(tape_segments(segment, 16), 2);
	assert_segment(0, 'S', -1, 10, 100);
	assert_segment(1, 'F', 0, 10, 100);

	before = tape_before(15);
	assert_int_equal(tape_begin(15, &live), 0);
	tape_mark('F', 0);
	tape_after(15, before, 100);
	tape_end();
	tape_segments(segment, 16);
	assert_segment(0, 'S', -1, 10, 10);
	assert_segment(1, 'F', 0, 10, 100);
}

/*
 * The literal model: a tape as a list of segments that every event is applied
 * to in turn, written as FORMATS.md says it, with no cleverness.
 */
#define ADDRESSES 40
#define EVENTS 400

static struct model {
	uint64_t live, size[ADDRESSES];
	int watch[ADDRESSES]; /* storage + 1 */
	struct ckptagent_segment segment[EVENTS + 8];
	struct ckptagent_storage storage[EVENTS];
	int segments, storages;
	bool late;
} model;

static void model_mark(char mark, int call)
{
	struct ckptagent_segment opened = { (uint32_t)mark, call, model.live,
					    model.live };

	model.segment[model.segments++] = opened;
	model.late = false;
}

static void model_alloc(int k, uint64_t bytes)
{
	struct ckptagent_segment *open;

	if (model.late)
		model_mark('X', -1);
	model.live += bytes;
	model.size[k] = bytes;
	open = &model.segment[model.segments - 1];
	if (model.live > open->peak)
		open->peak = model.live;
}

static void model_free(int k)
{
	int open = model.segments - 1;

	model.live -= model.size[k];
	model.size[k] = 0;
	if (!model.watch[k])
		return;
	model.storage[model.watch[k] - 1].freed = open;
	model.watch[k] = 0;
	if (model.segment[open].mark != 'E')
		model.late = true;
}

static void model_watch(int k)
{
	struct ckptagent_storage new = { model.size[k], -1, 0 };

	if (!model.size[k] || model.watch[k])
		return;
	model.storage[model.storages++] = new;
	model.watch[k] = model.storages;
}

static uint64_t address_of(int k)
{
	return 0x7f0000000000 + (uint64_t)k * 0x1040;
}

static void apply_random_event(uint64_t *seed)
{
	static const char marks[] = "FEDBR";
	uint64_t choice = next_random(seed) % 10;
	int k = (int)(next_random(seed) % ADDRESSES);

	if (choice < 6 && model.size[k]) {
		model_free(k);
		ledger_free(address_of(k));
	} else if (choice < 6) {
		uint64_t bytes = 1 + next_random(seed) % 1000;

		model_alloc(k, bytes);
		alloc(14, address_of(k), bytes);
	} else if (choice < 8) {
		model_watch(k);
		assert_int_equal(ledger_watch(address_of(k)),
				 model.watch[k] - 1);
	} else {
		char mark = marks[next_random(seed) % 5];

		assert_int_equal(tape_mark((uint32_t)mark, k), model.segments);
		model_mark(mark, k);
	}
}

static void random_tapes_agree_with_a_literal_replay(void **state)
{
	static struct ckptagent_storage stored[EVENTS];
	uint64_t seed = 7;

	(void)state;
	for (int run = 0; run < 300; run++) {
		memset(model.watch, 0, sizeof(model.watch));
		model.segments = model.storages = 0;
		model_mark('S', -1);
		ledger_tape_begin(14);
		for (int i = 0; i < EVENTS; i++)
			apply_random_event(&seed);
		model_mark('Z', -1);
		tape_end();
		assert_int_equal(tape_segments(segment, EVENTS + 8),
				 model.segments);
		assert_memory_equal(segment, model.segment,
				    (size_t)model.segments * sizeof(*segment));
		assert_int_equal(tape_storages(stored, EVENTS), model.storages);
		assert_memory_equal(stored, model.storage,
				    (size_t)model.storages * sizeof(*stored));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_recorded_without_a_tape),
		cmocka_unit_test(
			a_segment_has_its_opening_and_its_highest_bytes),
		cmocka_unit_test(a_tape_stays_as_it_ended),
		cmocka_unit_test(only_the_device_of_the_tape_is_on_it),
		cmocka_unit_test(a_watched_storage_tells_where_it_was_freed),
		cmocka_unit_test(a_new_tape_watches_anew),
		cmocka_unit_test(
			a_late_free_opens_x_at_the_next_allocation_once),
		cmocka_unit_test(a_free_where_dropping_happens_opens_no_x),
		cmocka_unit_test(
			a_mark_after_the_late_free_takes_the_place_of_x),
		cmocka_unit_test(a_full_tape_says_so_and_a_new_one_is_not_full),
		cmocka_unit_test(
			a_late_free_on_a_full_tape_loses_an_x_and_says_so),
		cmocka_unit_test(too_many_storages_make_the_tape_full),
		cmocka_unit_test(an_abandoned_tape_records_nothing_more),
		cmocka_unit_test(
			a_mark_during_an_allocation_leaves_it_in_both_segments),
		cmocka_unit_test(random_tapes_agree_with_a_literal_replay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
