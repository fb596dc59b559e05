/* optimal against brute force over every subset of the calls. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "plan_tapes.h"
#include "planner.h"
#include "tape_peak.h"

/* Every plan of a tape: its peak and recompute time. */
struct all_plans {
	const struct tape *tape;
	size_t count;
	int64_t *peaks;
	double *times;
	int64_t floor;
};

static void plan_of(const struct tape *tape, size_t subset, bool *keep)
{
	for (size_t i = 0, bit = 0; i < tape->call_count; i++)
		keep[i] = !tape->calls[i].dropped || subset >> bit++ & 1;
}

static struct all_plans try_all(const struct tape *tape)
{
	struct all_plans all = { .tape = tape, .floor = INT64_MAX };
	int64_t *bytes = malloc((tape->segment_count + 1) * sizeof(*bytes));
	int droppable = 0;
	bool keep[32];

	for (size_t i = 0; i < tape->call_count; i++)
		droppable += tape->calls[i].dropped;
	all.count = (size_t)1 << droppable;
	all.peaks = malloc(all.count * sizeof(*all.peaks));
	all.times = malloc(all.count * sizeof(*all.times));
	for (size_t s = 0; s < all.count; s++) {
		plan_of(tape, s, keep);
		all.peaks[s] = tape_peak(tape, keep, bytes).bytes;
		all.times[s] = tape_recompute_ms(tape, keep);
		if (all.peaks[s] < all.floor)
			all.floor = all.peaks[s];
	}
	free(bytes);
	return all;
}

static void free_all(struct all_plans *all)
{
	free(all->peaks);
	free(all->times);
}

/* INFINITY: no plan holds. */
static double least_time(const struct all_plans *all, int64_t budget)
{
	double least = INFINITY;

	for (size_t s = 0; s < all->count; s++)
		if (all->peaks[s] <= budget && all->times[s] < least)
			least = all->times[s];
	return least;
}

static int64_t some_budget(const struct all_plans *all, uint64_t *seed)
{
	switch (draw(seed, 4)) {
	case 0:
		return all->floor;
	case 1: /* exactly at a plan's peak, or just below it */
		return all->peaks[draw(seed, all->count)] -
		       (int64_t)draw(seed, 2);
	default:
		return all->floor +
		       (int64_t)draw(seed,
				     (uint64_t)(all->peaks[all->count - 1] +
						2));
	}
}

static void check_floor(const struct all_plans *all, int64_t budget)
{
	int64_t *bytes = malloc((all->tape->segment_count + 1) * 8);
	bool keep[32];

	assert_int_equal(floor_bytes(all->tape, keep, bytes), all->floor);
	assert_int_equal(floor_forced(all->tape, budget, keep, bytes),
			 budget >= all->floor);
	free(bytes);
}

/* Solve one tape at one budget and compare; the true gap in ms is returned. */
static double check_tape(const struct tape *tape, bool exact, uint64_t *seed)
{
	struct all_plans all = try_all(tape);
	int64_t budget = some_budget(&all, seed);
	int64_t *bytes = malloc((tape->segment_count + 1) * 8);
	struct why why = { NULL, 0 };
	bool keep[32];
	double gap_ms, ms, least;

	check_floor(&all, budget);
	if (budget < all.floor)
		budget = all.floor;
	struct goal goal = { tape, GOAL_PEAK, budget };

	assert_int_equal(optimal_choose_gap(&goal, keep, &gap_ms, &why), 0);
	ms = tape_recompute_ms(tape, keep);
	least = least_time(&all, budget);
	for (size_t i = 0; i < tape->call_count; i++)
		assert_true(keep[i] || tape->calls[i].dropped);
	assert_true(tape_peak(tape, keep, bytes).bytes <= budget);
	assert_true(ms - least <= gap_ms + 1e-9 * (1 + ms));
	if (exact) {
		assert_true(ms - least <= 1e-9 * (1 + ms));
		assert_true(gap_ms == 0);
	}
	free(bytes);
	free_all(&all);
	return ms - least;
}

static void check_many(struct recipe recipe, int rounds, int most_calls,
		       bool exact, uint64_t seed)
{
	double worse = 0;

	for (int round = 0; round < rounds; round++) {
		recipe.calls = 1 + (int)draw(&seed, (uint64_t)most_calls);
		recipe.tight = draw(&seed, 2);
		recipe.proportional = draw(&seed, 2);
		recipe.excluded = draw(&seed, 4) == 0;
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);

		if (!exact && draw(&seed, 3) == 0)
			tape_scramble(&tape, &seed);
		worse += check_tape(&tape, exact, &seed) > 1e-6;
		tape_free(&tape);
		trace_free(trace);
	}
	if (!exact)
		print_message("%d of %d plans are not the optimum\n",
			      (int)worse, rounds);
}

static void nested_tapes_are_solved_exactly(void **state)
{
	(void)state;
	check_many((struct recipe){ .shape = SHAPE_CHAIN }, 1500, 10, true, 1);
	check_many((struct recipe){ .shape = SHAPE_SIBLINGS }, 1500, 10, true,
		   2);
	check_many((struct recipe){ .shape = SHAPE_TREE }, 1500, 10, true, 3);
}

static void nested_tapes_of_sixteen_calls_are_solved_exactly(void **state)
{
	(void)state;
	for (int shape = SHAPE_CHAIN; shape <= SHAPE_TREE; shape++)
		for (uint64_t seed = 0; seed < 4; seed++) {
			struct recipe recipe = { .shape = shape,
						 .calls = 16,
						 .proportional = seed % 2,
						 .tight = seed / 2 };
			struct trace *trace = trace_make(&recipe, seed);
			struct tape tape = trace_tape(trace);

			check_tape(&tape, true, &seed);
			tape_free(&tape);
			trace_free(trace);
		}
}

static void late_frees_hold_and_the_gap_is_a_bound(void **state)
{
	(void)state;
	for (int shape = 0; shape < SHAPE_CROSSING; shape++)
		check_many((struct recipe){ .shape = shape, .late = true }, 500,
			   9, false, 10 + (uint64_t)shape);
}

static void shared_storages_hold_and_the_gap_is_a_bound(void **state)
{
	(void)state;
	for (int shape = 0; shape < SHAPE_COUNT; shape++)
		check_many((struct recipe){ .shape = shape, .shared = true },
			   500, 9, false, 20 + (uint64_t)shape);
}

static void crossing_lifetimes_hold_and_the_gap_is_a_bound(void **state)
{
	(void)state;
	check_many((struct recipe){ .shape = SHAPE_CROSSING }, 1000, 9, false,
		   30);
	check_many((struct recipe){ .shape = SHAPE_CROSSING,
				    .late = true,
				    .shared = true,
				    .again = true },
		   1000, 9, false, 31);
}

static void second_recomputes_hold_and_the_gap_is_a_bound(void **state)
{
	(void)state;
	for (int shape = 0; shape < SHAPE_CROSSING; shape++)
		check_many((struct recipe){ .shape = shape, .again = true },
			   500, 9, false, 40 + (uint64_t)shape);
}

static void noted_inputs_hold_and_the_gap_is_a_bound(void **state)
{
	(void)state;
	for (int shape = 0; shape < SHAPE_COUNT; shape++) {
		check_many((struct recipe){ .shape = shape, .noted = true },
			   500, 9, false, 70 + (uint64_t)shape);
		check_many((struct recipe){ .shape = shape,
					    .noted = true,
					    .late = true,
					    .shared = true,
					    .again = true },
			   500, 9, false, 80 + (uint64_t)shape);
		check_many((struct recipe){ .shape = shape,
					    .noted = true,
					    .sharp = true,
					    .shared = shape % 2 },
			   500, 9, false, 90 + (uint64_t)shape);
	}
}

/* Blocks that each let one input go, as a post-norm transformer's do. */
static void a_nest_whose_calls_release_inputs_is_solved_exactly(void **state)
{
	uint64_t seed = 100;
	int exact = 0;

	(void)state;
	for (int round = 0; round < 1500; round++) {
		struct recipe recipe = { .shape = draw(&seed, SHAPE_CROSSING),
					 .calls = 1 + (int)draw(&seed, 10),
					 .noted = true,
					 .sharp = true,
					 .tight = draw(&seed, 2),
					 .proportional = draw(&seed, 2) };
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		bool whole = true;

		for (size_t j = 0; j < tape.noted_count; j++)
			whole &= tape.noted[j].low == tape.noted[j].from &&
				 tape.noted[j].high == tape.noted[j].to;
		check_tape(&tape, whole, &seed);
		exact += whole;
		tape_free(&tape);
		trace_free(trace);
	}
	assert_true(exact > 700);
}

/* The last block's drop buys nothing at the floor. */
static void at_the_floor_nothing_is_recomputed_in_vain(void **state)
{
	uint64_t seed = 50;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct recipe recipe = { .shape = SHAPE_CHAIN, .calls = 8 };
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		struct all_plans all = try_all(&tape);
		struct goal goal = { &tape, GOAL_PEAK, all.floor };
		struct why why = { NULL, 0 };
		bool keep[32];

		assert_int_equal(optimal_choose(&goal, keep, &why), 0);
		assert_true(fabs(tape_recompute_ms(&tape, keep) -
				 least_time(&all, all.floor)) < 1e-9);
		free_all(&all);
		tape_free(&tape);
		trace_free(trace);
	}
}

static void saved_bytes_are_reached_at_the_least_time(void **state)
{
	uint64_t seed = 60;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct recipe recipe = { .calls = 9, .excluded = true };
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		int64_t all = 0;
		double least = INFINITY, gap_ms;
		struct why why = { NULL, 0 };
		bool keep[32];

		for (size_t i = 0; i < tape.call_count; i++)
			if (tape.calls[i].dropped)
				all += tape.calls[i].saved_bytes;
		struct goal goal = { &tape, GOAL_SAVING,
				     (int64_t)draw(&seed, (uint64_t)all + 1) };
		for (size_t s = 0; s < 512; s++) {
			int64_t saved = 0;

			plan_of(&tape, s, keep);
			for (size_t i = 0; i < tape.call_count; i++)
				if (!keep[i])
					saved += tape.calls[i].saved_bytes;
			if (saved >= goal.bytes)
				least = fmin(least,
					     tape_recompute_ms(&tape, keep));
		}
		assert_int_equal(optimal_choose_gap(&goal, keep, &gap_ms, &why),
				 0);
		assert_true(fabs(tape_recompute_ms(&tape, keep) - least) <
			    1e-9);
		assert_true(gap_ms == 0);
		tape_free(&tape);
		trace_free(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested_tapes_are_solved_exactly),
		cmocka_unit_test(
			nested_tapes_of_sixteen_calls_are_solved_exactly),
		cmocka_unit_test(late_frees_hold_and_the_gap_is_a_bound),
		cmocka_unit_test(shared_storages_hold_and_the_gap_is_a_bound),
		cmocka_unit_test(
			crossing_lifetimes_hold_and_the_gap_is_a_bound),
		cmocka_unit_test(second_recomputes_hold_and_the_gap_is_a_bound),
		cmocka_unit_test(noted_inputs_hold_and_the_gap_is_a_bound),
		cmocka_unit_test(
			a_nest_whose_calls_release_inputs_is_solved_exactly),
		cmocka_unit_test(at_the_floor_nothing_is_recomputed_in_vain),
		cmocka_unit_test(saved_bytes_are_reached_at_the_least_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
