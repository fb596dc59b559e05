/* The true peak of a plan: against its definition and against a replay. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "plan_tapes.h"
#include "tape_peak.h"

/* FORMATS.md, word for word. */

static int last_mark(const struct tape *tape, char mark, int call)
{
	for (int k = (int)tape->segment_count - 1; k >= 0; k--)
		if (tape->segments[k].mark == mark &&
		    tape->segments[k].call == call)
			return k;
	return (int)tape->segment_count;
}

static bool lies_in_recompute_of_kept(const struct tape *tape, int k,
				      const bool *keep)
{
	for (; k > 0; k--) {
		char mark = tape->segments[k].mark;

		if (mark == 'X')
			continue;
		return mark == 'B' && keep[tape->segments[k].call];
	}
	return false;
}

static bool storage_costs(const struct tape *tape, int j, int k,
			  const bool *keep)
{
	const struct tape_storage *storage = &tape->storages[j];

	if (storage->freed < 0 || storage->freed >= k)
		return false;
	for (uint32_t s = 0; s < storage->count; s++) {
		int i = tape->savers[storage->first + s];

		if (keep[i] && last_mark(tape, 'D', i) <= k &&
		    k < last_mark(tape, 'B', i))
			return true;
	}
	return false;
}

/* In a recompute of call i that ends its life. */
static bool lies_in_last_recompute(const struct tape *tape, int k, int i)
{
	int b = last_mark(tape, 'B', i);

	for (int n = b; n <= k; n++)
		if (n > b && tape->segments[n].mark != 'X')
			return false;
	return k >= b;
}

/* Whether keeping its calls can release a noted storage in a segment. */
static bool may_go(const struct tape *tape, const struct tape_noted *noted,
		   int k)
{
	if (k < noted->from || k >= noted->to)
		return false;
	for (uint32_t n = 0; n < noted->count; n++) {
		const struct tape_noter *noter =
			&tape->noters[noted->first + n];
		int i = noter->call;

		if (k < last_mark(tape, 'D', i))
			return false;
		for (int at = last_mark(tape, 'B', i); at <= k; at++)
			if (at < noter->until &&
			    !lies_in_last_recompute(tape, at, i))
				return false;
	}
	return true;
}

static bool may_go_anywhere(const struct tape *tape,
			    const struct tape_noted *noted)
{
	for (int k = noted->from; k < noted->to; k++)
		if (may_go(tape, noted, k))
			return true;
	return false;
}

static int64_t held_alone(const struct tape *tape, int i)
{
	int64_t sum = 0;

	for (size_t j = 0; j < tape->storage_count; j++) {
		const struct tape_storage *storage = &tape->storages[j];

		if (storage->count == 1 && tape->savers[storage->first] == i &&
		    storage->freed >= 0 &&
		    storage->freed < last_mark(tape, 'D', i))
			sum += storage->bytes;
	}
	return sum;
}

/* counts[j]: noted storage j is set off against what its calls hold alone. */
static void set_off(const struct tape *tape, bool *counts)
{
	int64_t spare[32];

	for (int i = 0; i < (int)tape->call_count; i++)
		spare[i] = held_alone(tape, i);
	for (size_t j = 0; j < tape->noted_count; j++) {
		const struct tape_noted *noted = &tape->noted[j];
		const struct tape_noter *noters = tape->noters + noted->first;

		counts[j] = may_go_anywhere(tape, noted);
		for (uint32_t n = 0; n < noted->count; n++)
			counts[j] &= spare[noters[n].call] >= noted->bytes;
		for (uint32_t n = 0; n < noted->count; n++)
			spare[noters[n].call] -= counts[j] ? noted->bytes : 0;
	}
}

static bool is_gone(const struct tape *tape, const struct tape_noted *noted,
		    int k, const bool *keep)
{
	for (uint32_t n = 0; n < noted->count; n++) {
		const struct tape_noter *noter =
			&tape->noters[noted->first + n];

		if (k < noter->until && !keep[noter->call])
			return false;
	}
	return may_go(tape, noted, k);
}

static int64_t literal_peak(const struct tape *tape, const bool *keep)
{
	bool *counts = calloc(tape->noted_count + 1, sizeof(*counts));
	int64_t peak = 0;

	set_off(tape, counts);
	for (int k = 0; k < (int)tape->segment_count; k++) {
		int64_t bytes = tape->segments[k].peak;

		if (lies_in_recompute_of_kept(tape, k, keep))
			continue;
		for (int j = 0; j < (int)tape->storage_count; j++)
			if (storage_costs(tape, j, k, keep))
				bytes += tape->storages[j].bytes;
		for (size_t j = 0; j < tape->noted_count; j++)
			if (counts[j] &&
			    is_gone(tape, &tape->noted[j], k, keep))
				bytes -= tape->noted[j].bytes;
		if (bytes > peak)
			peak = bytes;
	}
	free(counts);
	return peak;
}

static void random_plan(const struct tape *tape, bool *keep, uint64_t *seed)
{
	uint64_t share = draw(seed, 101);

	for (size_t i = 0; i < tape->call_count; i++)
		keep[i] = !tape->calls[i].dropped || draw(seed, 100) < share;
}

static struct recipe random_recipe(uint64_t *seed)
{
	return (struct recipe){
		.shape = draw(seed, SHAPE_COUNT),
		.calls = 1 + (int)draw(seed, 16),
		.late = draw(seed, 2),
		.shared = draw(seed, 2),
		.noted = draw(seed, 2),
		.sharp = draw(seed, 2),
		.again = draw(seed, 4) == 0,
		.excluded = draw(seed, 3) == 0,
		.tight = draw(seed, 2),
	};
}

static void the_peak_is_the_one_that_formats_defines(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct recipe recipe = random_recipe(&seed);
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		int64_t *bytes = malloc((tape.segment_count + 1) * 8);
		bool keep[32];

		if (draw(&seed, 2))
			tape_scramble(&tape, &seed);
		for (int plan = 0; plan < 3; plan++) {
			random_plan(&tape, keep, &seed);
			struct tape_peak peak = tape_peak(&tape, keep, bytes);

			assert_int_equal(peak.bytes, literal_peak(&tape, keep));
			assert_int_equal(bytes[peak.segment], peak.bytes);
		}
		free(bytes);
		tape_free(&tape);
		trace_free(trace);
	}
}

/* Whether the tape knows all about the inputs, and uses it. */
static bool notes_are_sharp(const struct recipe *recipe,
			    const struct tape *tape)
{
	for (size_t j = 0; j < tape->noted_count; j++)
		if (tape->noted[j].low != tape->noted[j].from ||
		    tape->noted[j].high != tape->noted[j].to)
			return false;
	return !recipe->noted || recipe->sharp;
}

/* Keeping a call takes no bytes from a segment that happens then. */
static void keeping_a_call_only_adds_bytes(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct recipe recipe = random_recipe(&seed);
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		int64_t *less = malloc((tape.segment_count + 1) * 8);
		int64_t *more = malloc((tape.segment_count + 1) * 8);
		bool keep[32];

		if (draw(&seed, 2))
			tape_scramble(&tape, &seed);
		random_plan(&tape, keep, &seed);
		tape_peak(&tape, keep, less);
		keep[draw(&seed, tape.call_count)] = true;
		tape_peak(&tape, keep, more);
		for (size_t k = 0; k < tape.segment_count; k++)
			assert_true(more[k] < 0 || more[k] >= less[k]);
		free(less);
		free(more);
		tape_free(&tape);
		trace_free(trace);
	}
}

static void a_replayed_plan_never_needs_more(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct recipe recipe = random_recipe(&seed);
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		int64_t *bytes = malloc((tape.segment_count + 1) * 8);
		bool keep[32];

		for (int plan = 0; plan < 3; plan++) {
			random_plan(&tape, keep, &seed);
			int64_t predicted = tape_peak(&tape, keep, bytes).bytes;
			int64_t real = trace_replay(trace, keep);

			assert_true(real <= predicted);
			if (!recipe.late && !recipe.shared && !recipe.again &&
			    notes_are_sharp(&recipe, &tape))
				assert_int_equal(real, predicted);
		}
		free(bytes);
		tape_free(&tape);
		trace_free(trace);
	}
}

static void the_bytes_of_kept_calls_are_those_above_the_tape(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct recipe recipe = random_recipe(&seed);
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		int64_t *bytes = malloc((tape.segment_count + 1) * 8);
		int64_t held[32];
		bool keep[32];

		if (draw(&seed, 2))
			tape_scramble(&tape, &seed);
		random_plan(&tape, keep, &seed);
		tape_peak(&tape, keep, bytes);
		for (size_t k = 0; k < tape.segment_count; k++) {
			int64_t sum = 0;

			if (bytes[k] < 0)
				continue;
			int64_t kept = tape_kept_bytes(&tape, keep, (int32_t)k,
						       held);

			for (size_t i = 0; i < tape.call_count; i++) {
				assert_true(held[i] >= 0);
				sum += held[i];
			}
			assert_int_equal(sum, kept);
			assert_int_equal(kept,
					 bytes[k] - tape.segments[k].peak);
		}
		free(bytes);
		tape_free(&tape);
		trace_free(trace);
	}
}

static void moving_the_base_moves_every_segment_and_stays_in_range(void **state)
{
	struct recipe recipe = { .shape = SHAPE_CHAIN, .calls = 3 };
	struct trace *trace = trace_make(&recipe, 4);
	struct tape tape = trace_tape(trace);
	int64_t live = tape.segments[0].live, last, before;

	(void)state;
	last = tape.segments[5].peak;
	tape_move(&tape, live + 1000);
	assert_int_equal(tape.segments[0].live, live + 1000);
	assert_int_equal(tape.segments[5].peak, last + 1000);
	before = tape.segments[0].live;
	tape_move(&tape, TAPE_BYTES_MAX);
	assert_true(before < tape.segments[0].live);
	assert_int_equal(tape.segments[5].peak, TAPE_BYTES_MAX);
	tape_move(&tape, 0);
	assert_int_equal(tape.segments[0].live, 0);
	tape_free(&tape);
	trace_free(trace);
}

static void segments_are_named_in_words(void **state)
{
	struct tape_call calls[] = { { .name = (char *)"h.0", .dropped = true },
				     { .name = (char *)"h.1",
				       .dropped = true } };
	struct tape_segment segments[] = {
		{ 'S', -1, 0, 0, 0 }, { 'F', 0, 0, 0, 0 }, { 'X', -1, 0, 0, 0 },
		{ 'E', 0, 0, 0, 0 },  { 'D', 0, 0, 0, 0 }, { 'F', 1, 0, 0, 0 },
		{ 'E', 1, 0, 0, 0 },  { 'D', 1, 0, 0, 0 }, { 'B', 1, 0, 0, 0 },
		{ 'R', 1, 0, 0, 0 },  { 'B', 0, 0, 0, 0 }, { 'R', 0, 0, 0, 0 },
		{ 'Z', -1, 0, 0, 0 },
	};
	static const char *const names[] = {
		"between the start and h.0",
		"forward of h.0",
		"forward of h.0",
		"forward of h.0",
		"between h.0 and h.1",
		"forward of h.1",
		"forward of h.1",
		"between h.1 and the backward of h.1",
		"recompute of h.1",
		"backward of h.1",
		"recompute of h.0",
		"backward of h.0",
		"after the backward of h.0",
	};
	struct tape tape = { .call_count = 2,
			     .calls = calls,
			     .segment_count = 13,
			     .segments = segments };
	char text[80];

	(void)state;
	for (int k = 0; k < 13; k++) {
		tape_segment_name(&tape, k, text, sizeof(text));
		assert_string_equal(text, names[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peak_is_the_one_that_formats_defines),
		cmocka_unit_test(a_replayed_plan_never_needs_more),
		cmocka_unit_test(keeping_a_call_only_adds_bytes),
		cmocka_unit_test(
			the_bytes_of_kept_calls_are_those_above_the_tape),
		cmocka_unit_test(
			moving_the_base_moves_every_segment_and_stays_in_range),
		cmocka_unit_test(segments_are_named_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
