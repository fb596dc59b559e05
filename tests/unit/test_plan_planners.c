/* The other planners against their definitions, taken literally. */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_tapes.h"
#include "planner.h"
#include "tape_peak.h"

#define MIB (INT64_C(1) << 20)

typedef void literal(const struct tape *tape, int64_t wanted, bool *keep);

static int list_eligible(const struct tape *tape, int *list)
{
	int m = 0;

	for (int i = 0; i < (int)tape->call_count; i++)
		if (tape->calls[i].dropped)
			list[m++] = i;
	return m;
}

static int64_t saved_by(const struct tape *tape, const bool *keep)
{
	int64_t saved = 0;

	for (size_t i = 0; i < tape->call_count; i++)
		if (tape->calls[i].dropped && !keep[i])
			saved += tape->calls[i].saved_bytes;
	return saved;
}

static void literal_uniform(const struct tape *tape, int64_t wanted, bool *keep)
{
	int list[32], m = list_eligible(tape, list);

	for (int k = 0; k <= m; k++) {
		memset(keep, true, tape->call_count);
		for (int j = 0; j < k; j++)
			keep[list[j * m / k]] = false;
		if (saved_by(tape, keep) >= wanted)
			return;
	}
}

/* Is call x before call y by a/c falling, a falling, c rising, order? */
static bool before(const struct tape *tape, int x, int y)
{
	double ax = (double)tape->calls[x].saved_bytes;
	double ay = (double)tape->calls[y].saved_bytes;
	double cx = tape->calls[x].recompute_ms;
	double cy = tape->calls[y].recompute_ms;

	if (ax / cx != ay / cy)
		return ax / cx > ay / cy;
	if (ax != ay)
		return ax > ay;
	if (cx != cy)
		return cx < cy;
	return x < y;
}

static int best_kept(const struct tape *tape, const bool *keep)
{
	int best = -1;

	for (int i = 0; i < (int)tape->call_count; i++)
		if (tape->calls[i].dropped && keep[i] &&
		    (best < 0 || before(tape, i, best)))
			best = i;
	return best;
}

static void literal_greedy(const struct tape *tape, int64_t wanted, bool *keep)
{
	memset(keep, true, tape->call_count);
	while (saved_by(tape, keep) < wanted && best_kept(tape, keep) >= 0)
		keep[best_kept(tape, keep)] = false;
}

static void literal_dynamic_programming(const struct tape *tape, int64_t wanted,
					bool *keep)
{
	int64_t buckets = (wanted + MIB - 1) / MIB, all = 0;
	int list[32], m = list_eligible(tape, list);
	double least = INFINITY;
	int chosen = 0;

	for (int j = 0; j < m; j++)
		all += (tape->calls[list[j]].saved_bytes + MIB / 2) / MIB;
	if (buckets > all)
		buckets = all;
	for (int subset = 0; subset < 1 << m; subset++) {
		int64_t sum = 0;
		double ms = 0;

		for (int j = 0; j < m; j++) {
			const struct tape_call *call = &tape->calls[list[j]];

			if (!(subset >> j & 1))
				continue;
			sum += (call->saved_bytes + MIB / 2) / MIB;
			ms += call->recompute_ms;
		}
		if (sum >= buckets && ms < least) {
			least = ms;
			chosen = subset;
		}
	}
	memset(keep, true, tape->call_count);
	for (int j = 0; j < m; j++)
		keep[list[j]] = !(chosen >> j & 1);
	while (saved_by(tape, keep) < wanted && best_kept(tape, keep) >= 0)
		keep[best_kept(tape, keep)] = false;
}

static void literal_all(const struct tape *tape, int64_t wanted, bool *keep)
{
	(void)wanted;
	for (size_t i = 0; i < tape->call_count; i++)
		keep[i] = !tape->calls[i].dropped;
}

static void literal_none(const struct tape *tape, int64_t wanted, bool *keep)
{
	(void)wanted;
	memset(keep, true, tape->call_count);
}

static const struct {
	const char *name;
	literal *choose;
} literals[] = {
	{ "uniform", literal_uniform },
	{ "greedy", literal_greedy },
	{ "dynamic_programming", literal_dynamic_programming },
	{ "checkpoint_all", literal_all },
	{ "no_checkpoint", literal_none },
};

/* Bytes of some MiB, and times that differ in every sum. */
static struct tape some_tape(uint64_t *seed)
{
	struct recipe recipe = { .shape = draw(seed, SHAPE_COUNT),
				 .calls = 1 + (int)draw(seed, 8),
				 .excluded = draw(seed, 2) };
	struct trace *trace = trace_make(&recipe, draw(seed, 1 << 30));
	struct tape tape = trace_tape(trace);

	for (size_t i = 0; i < tape.call_count; i++) {
		tape.calls[i].saved_bytes *= 5;
		tape.calls[i].recompute_ms = 1 +
					     (double)draw(seed, 1 << 30) * 1e-6;
	}
	trace_free(trace);
	return tape;
}

static int64_t eligible_bytes(const struct tape *tape)
{
	bool none[32] = { false };

	return saved_by(tape, none);
}

static void each_planner_reaches_the_saved_bytes_as_defined(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 1000; round++) {
		struct tape tape = some_tape(&seed);
		int64_t all = eligible_bytes(&tape);
		struct goal goal = { &tape, GOAL_SAVING,
				     (int64_t)draw(&seed, (uint64_t)all + 1) };
		struct why why = { NULL, 0 };
		bool keep[32], wanted[32];

		if (draw(&seed, 10) == 0)
			goal.bytes = draw(&seed, 2) ? all : 0;
		for (size_t p = 0; p < 5; p++) {
			literals[p].choose(&tape, goal.bytes, wanted);
			assert_int_equal(planner_find(literals[p].name)
						 ->choose(&goal, keep, &why),
					 0);
			assert_memory_equal(keep, wanted, tape.call_count);
		}
		tape_free(&tape);
	}
}

/* The next S for which a planner may choose another set. */
static int64_t next_wanted(const struct tape *tape, int64_t wanted,
			   const bool *keep, bool buckets)
{
	int64_t next = saved_by(tape, keep) + 1;
	int64_t edge = (wanted + MIB - 1) / MIB * MIB + 1;

	if (buckets && edge < next)
		next = edge;
	return next > wanted ? next : wanted + 1;
}

static void smallest_that_holds(const struct tape *tape, literal *choose,
				int64_t budget, bool *keep)
{
	int64_t *bytes = malloc((tape->segment_count + 1) * 8);
	int64_t all = eligible_bytes(tape), lowest = INT64_MAX;
	bool trial[32];

	for (int64_t wanted = 0; wanted <= all;
	     wanted = next_wanted(tape, wanted, trial,
				  choose == literal_dynamic_programming)) {
		choose(tape, wanted, trial);
		int64_t peak = tape_peak(tape, trial, bytes).bytes;

		if (peak < lowest) {
			memcpy(keep, trial, tape->call_count);
			lowest = peak;
		}
		if (peak <= budget)
			break;
		if (choose == literal_all || choose == literal_none)
			break;
	}
	free(bytes);
}

static void each_planner_takes_the_least_saving_whose_peak_holds(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct tape tape = some_tape(&seed);
		int64_t all = eligible_bytes(&tape);
		struct goal goal = { &tape, GOAL_PEAK,
				     (int64_t)draw(&seed, (uint64_t)all + 1) };
		struct why why = { NULL, 0 };
		bool keep[32], wanted[32];

		for (size_t p = 0; p < 5; p++) {
			smallest_that_holds(&tape, literals[p].choose,
					    goal.bytes, wanted);
			assert_int_equal(planner_find(literals[p].name)
						 ->choose(&goal, keep, &why),
					 0);
			assert_memory_equal(keep, wanted, tape.call_count);
		}
		tape_free(&tape);
	}
}

/* Which of four calls greedy recomputes first, second and so on. */
static void greedy_order(struct tape_call *calls, int *order)
{
	struct tape_segment segments[] = { { 'S', -1, 0, 0, -1 },
					   { 'Z', -1, 0, 0, -1 } };
	struct tape tape = { .call_count = 4,
			     .calls = calls,
			     .segment_count = 2,
			     .segments = segments };
	struct why why = { NULL, 0 };
	bool keep[4], before[4] = { true, true, true, true };

	for (int n = 0; n < 4; n++) {
		struct goal goal = { &tape, GOAL_SAVING,
				     saved_by(&tape, before) + 1 };

		assert_int_equal(greedy_choose(&goal, keep, &why), 0);
		for (int i = 0; i < 4; i++)
			if (before[i] && !keep[i])
				order[n] = i;
		memcpy(before, keep, sizeof(keep));
	}
}

static void greedy_breaks_ties_by_bytes_then_time_then_order(void **state)
{
	struct tape_call equal_ratio[] = {
		{ .dropped = true, .saved_bytes = 10, .recompute_ms = 1 },
		{ .dropped = true, .saved_bytes = 30, .recompute_ms = 3 },
		{ .dropped = true, .saved_bytes = 30, .recompute_ms = 3 },
		{ .dropped = true, .saved_bytes = 20, .recompute_ms = 2 },
	};
	struct tape_call for_free[] = {
		{ .dropped = true, .saved_bytes = 99, .recompute_ms = 1 },
		{ .dropped = true, .saved_bytes = 5, .recompute_ms = 0 },
		{ .dropped = true, .saved_bytes = 7, .recompute_ms = 0 },
		{ .dropped = true, .saved_bytes = 98, .recompute_ms = 1 },
	};
	int order[4];

	(void)state;
	greedy_order(equal_ratio, order);
	assert_memory_equal(order, ((int[]){ 1, 2, 3, 0 }), sizeof(order));
	greedy_order(for_free, order);
	assert_memory_equal(order, ((int[]){ 2, 1, 0, 3 }), sizeof(order));
}

static void a_table_of_too_many_cells_is_refused_by_name(void **state)
{
	uint64_t seed = 3;
	struct tape tape = some_tape(&seed);
	struct goal goal = { &tape, GOAL_SAVING, 1 };
	char text[200];
	struct why why = { text, sizeof(text) };
	bool keep[32];

	(void)state;
	for (size_t i = 0; i < tape.call_count; i++) {
		tape.calls[i].dropped = true;
		tape.calls[i].saved_bytes = 0;
	}
	tape.calls[0].saved_bytes = INT64_C(5000001) * MIB;
	assert_int_equal(dynamic_programming_choose(&goal, keep, &why),
			 -EINVAL);
	assert_non_null(strstr(text, "dynamic_programming: "));
	assert_non_null(strstr(text, "5000001 MiB are more than 5000000"));
	tape_free(&tape);
}

static void the_first_planner_is_the_default_and_all_have_a_line(void **state)
{
	(void)state;
	assert_string_equal(planners[0].name, "optimal");
	for (const struct planner *p = planners; p->name; p++) {
		assert_ptr_equal(planner_find(p->name), p);
		assert_true(strlen(p->summary) > 0);
	}
	assert_null(planner_find("best"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			each_planner_reaches_the_saved_bytes_as_defined),
		cmocka_unit_test(
			each_planner_takes_the_least_saving_whose_peak_holds),
		cmocka_unit_test(
			greedy_breaks_ties_by_bytes_then_time_then_order),
		cmocka_unit_test(a_table_of_too_many_cells_is_refused_by_name),
		cmocka_unit_test(
			the_first_planner_is_the_default_and_all_have_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
