/*
 * The two sides from which a tape is looked at, and the knapsack on them when
 * it is too long for brute force.
 */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "front.h"
#include "nest.h"
#include "plan_tapes.h"
#include "planner.h"
#include "tape_peak.h"

static struct recipe random_recipe(uint64_t *seed)
{
	return (struct recipe){
		.shape = draw(seed, SHAPE_COUNT),
		.calls = 1 + (int)draw(seed, 8),
		.late = draw(seed, 2),
		.shared = draw(seed, 2),
		.noted = draw(seed, 2),
		.sharp = draw(seed, 2),
		.again = draw(seed, 2),
		.tight = draw(seed, 2),
	};
}

/* A tape, a budget that it can hold and what every plan then keeps. */
struct problem {
	struct tape tape;
	int64_t budget;
	bool forced[32];
	int64_t *bytes;
};

static struct problem make_problem(uint64_t *seed)
{
	struct recipe recipe = random_recipe(seed);
	struct trace *trace = trace_make(&recipe, draw(seed, 1 << 30));
	struct problem p = { .tape = trace_tape(trace) };
	int64_t floor, plain;

	trace_free(trace);
	if (draw(seed, 3) == 0)
		tape_scramble(&p.tape, seed);
	p.bytes = malloc((p.tape.segment_count + 1) * sizeof(*p.bytes));
	floor = floor_bytes(&p.tape, p.forced, p.bytes);
	memset(p.forced, true, p.tape.call_count);
	plain = tape_peak(&p.tape, p.forced, p.bytes).bytes;
	p.budget = floor + (int64_t)draw(seed, (uint64_t)(plain - floor) + 1);
	floor_forced(&p.tape, p.budget, p.forced, p.bytes);
	return p;
}

static void free_problem(struct problem *p)
{
	tape_free(&p->tape);
	free(p->bytes);
}

static int solve_view(const struct problem *p, enum nest_view view,
		      int32_t after, bool *keep, struct front_answer *answer)
{
	struct nest_request request = { &p->tape,  p->budget, view,
					p->forced, NULL,      after };
	struct nest nest;
	int error;

	assert_int_equal(nest_build(&nest, &request), 0);
	error = front_solve(&nest, FRONT_POINTS, keep, answer);
	nest_free(&nest);
	return error;
}

static void what_holds_in_the_safe_nest_holds_on_the_tape(void **state)
{
	uint64_t seed = 1;
	int solved = 0;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct problem p = make_problem(&seed);
		struct front_answer answer;
		bool keep[32];

		if (!solve_view(&p, NEST_SAFE, -1, keep, &answer)) {
			assert_true(tape_peak(&p.tape, keep, p.bytes).bytes <=
				    p.budget);
			solved++;
		}
		free_problem(&p);
	}
	assert_true(solved > 1500);
}

/* The most recompute time that a plan within the budget saves. */
static double most_saved(const struct problem *p)
{
	double most = 0;
	bool keep[32], none[32] = { false };

	for (int subset = 0; subset < 1 << p->tape.call_count; subset++) {
		for (size_t i = 0; i < p->tape.call_count; i++)
			keep[i] = subset >> i & 1;
		if (tape_peak(&p->tape, keep, p->bytes).bytes <= p->budget)
			most = fmax(most,
				    tape_recompute_ms(&p->tape, none) -
					    tape_recompute_ms(&p->tape, keep));
	}
	return most;
}

static void no_plan_on_the_tape_beats_a_relaxed_nest(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct problem p = make_problem(&seed);
		int32_t last = (int32_t)p.tape.segment_count - 1;
		int32_t afters[] = { -1, last,
				     (int32_t)draw(&seed, (uint64_t)last) };
		double most = most_saved(&p);
		struct front_answer answer;
		bool keep[32];

		for (int i = 0; i < 3; i++) {
			assert_int_equal(solve_view(&p, NEST_RELAXED, afters[i],
						    keep, &answer),
					 0);
			assert_true(most <= answer.bound + 1e-9);
		}
		free_problem(&p);
	}
}

/*
 * Two calls of 10 bytes each and a storage of 5 that their notes hold:
 *
 *	S F0 E0 D0 F1 E1 D1 B. R. B. R. Z, of call `first` before the other
 */
struct pair {
	int first;
	int64_t peaks[12];
	struct tape_noted noted;
	struct tape_noter noters[2];
};

static struct problem pair_problem(const struct pair *pair, int64_t budget)
{
	static const char letters[] = "SFEDFEDBRBRZ";
	struct problem p = { .budget = budget };
	struct why why = { NULL, 0 };
	struct tape *tape = &p.tape;

	tape->call_count = tape->storage_count = 2;
	tape->noted_count = 1;
	tape->segment_count = 12;
	tape->calls = calloc(2, sizeof(*tape->calls));
	tape->storages = calloc(2, sizeof(*tape->storages));
	tape->savers = calloc(2, sizeof(*tape->savers));
	tape->noted = calloc(1, sizeof(*tape->noted));
	tape->noters = calloc(2, sizeof(*tape->noters));
	tape->segments = calloc(12, sizeof(*tape->segments));
	p.bytes = calloc(13, sizeof(*p.bytes));
	for (int i = 0; i < 2; i++) {
		tape->calls[i].dropped = true;
		tape->calls[i].recompute_ms = 1;
		tape->savers[i] = i;
		tape->storages[i] = (struct tape_storage){ 10, 2 + 3 * i,
							   (uint32_t)i, 1 };
	}
	for (int k = 0; k < 12; k++) {
		int call = k < 7 ? k > 3 : (k > 8) ^ pair->first;
		bool outside = k == 0 || k == 11;

		tape->segments[k] = (struct tape_segment){
			letters[k], outside ? -1 : call, 0, pair->peaks[k], -1
		};
	}
	*tape->noted = pair->noted;
	memcpy(tape->noters, pair->noters, sizeof(pair->noters));
	assert_int_equal(tape_index(tape, "", &why), 0);
	return p;
}

static void check_safe(const struct pair *pair, int64_t budget)
{
	struct problem p = pair_problem(pair, budget);
	struct front_answer answer;
	bool keep[2];

	assert_int_equal(solve_view(&p, NEST_SAFE, -1, keep, &answer), 0);
	assert_true(tape_peak(&p.tape, keep, p.bytes).bytes <= budget);
	free_problem(&p);
}

/* One call alone does not release it: the other's note is there still. */
static void a_shared_note_is_no_credit_in_the_safe_nest(void **state)
{
	static const struct pair pair = {
		0,
		{ 0, 50, 60, 50, 50, 90, 50, 90, 50, 50, 50, 0 },
		{ .bytes = 5, .from = 6, .to = 10, .count = 2 },
		{ { 0, 8 }, { 1, 10 } },
	};

	(void)state;
	check_safe(&pair, 96);
}

/* Until then the first call costs all, and the second lives already. */
static void a_late_release_is_no_credit_in_the_safe_nest(void **state)
{
	static const struct pair pair = {
		1,
		{ 0, 50, 80, 50, 50, 70, 70, 50, 50, 50, 50, 0 },
		{ .bytes = 5, .from = 7, .to = 10, .count = 1 },
		{ { 0, 10 } },
	};

	(void)state;
	check_safe(&pair, 86);
}

/* After the other's backward too, one call's keeping releases it. */
static void the_relaxed_nest_gives_a_shared_note_to_its_last_call(void **state)
{
	static const struct pair pair = {
		1,
		{ 0, 50, 50, 50, 50, 50, 50, 50, 90, 50, 50, 0 },
		{ .bytes = 5, .from = 6, .to = 10, .count = 2 },
		{ { 0, 10 }, { 1, 8 } },
	};
	struct problem p = pair_problem(&pair, 95);
	struct front_answer answer;
	bool keep[2];

	(void)state;
	assert_true(most_saved(&p) == 2);
	assert_int_equal(solve_view(&p, NEST_RELAXED, -1, keep, &answer), 0);
	assert_true(answer.bound >= 2);
	free_problem(&p);
}

/*
 * A chain by hand, the outermost call last: room i bounds the bytes kept by
 * the calls i and outside of it.
 */
#define CHAIN 60
#define CHAIN_BYTES (CHAIN * 200)

struct chain {
	struct nest_node nodes[CHAIN];
};

static void make_chain(struct chain *chain, double noise, uint64_t *seed)
{
	int64_t all = 0;

	for (int i = 0; i < CHAIN; i++) {
		int64_t bytes = 1 + (int64_t)draw(seed, 199);

		chain->nodes[i] = (struct nest_node){
			.call = i,
			.parent = i + 1 < CHAIN ? i + 1 : -1,
			.children = i > 0,
			.cost = bytes,
			.value = (double)bytes *
				 (1 + noise * (double)draw(seed, 1000) / 1000),
			.drop_room = NEST_ANY,
		};
		all += bytes;
	}
	/* Up to the whole of what stands outside: some bind, some do not. */
	for (int i = CHAIN; i-- > 0;) {
		int64_t outside = all * (CHAIN - i) / CHAIN;

		chain->nodes[i].room = (int64_t)draw(seed, (uint64_t)outside) +
				       100;
	}
}

/* By a table of every number of kept bytes, from the outside inwards. */
static double best_by_table(const struct chain *chain)
{
	static double best[CHAIN_BYTES + 1], next[CHAIN_BYTES + 1];
	double most = 0;

	for (int b = 0; b <= CHAIN_BYTES; b++)
		best[b] = b ? -INFINITY : 0;
	for (int i = CHAIN; i-- > 0;) {
		const struct nest_node *node = &chain->nodes[i];

		for (int64_t b = 0; b <= CHAIN_BYTES; b++) {
			next[b] = best[b];
			if (b >= node->cost)
				next[b] = fmax(next[b], best[b - node->cost] +
								node->value);
			if (b > node->room)
				next[b] = -INFINITY;
		}
		memcpy(best, next, sizeof(best));
	}
	for (int b = 0; b <= CHAIN_BYTES; b++)
		most = fmax(most, best[b]);
	return most;
}

static void a_long_chain_is_worth_what_a_table_of_all_bytes_says(void **state)
{
	static const double noises[] = { 0, 0.02, 0.1, 1 };
	static struct chain chain;
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 60; round++) {
		make_chain(&chain, noises[round % 4], &seed);
		struct nest nest = { CHAIN, chain.nodes, true };
		struct front_answer answer;
		double best = best_by_table(&chain), value = 0;
		bool keep[CHAIN];

		assert_int_equal(front_solve(&nest, FRONT_POINTS, keep,
					     &answer),
				 0);
		for (int i = 0; i < CHAIN; i++)
			value += keep[i] ? chain.nodes[i].value : 0;
		assert_true(fabs(value - answer.value) < 1e-6);
		assert_true(value <= best + 1e-6);
		assert_true(best <= answer.bound + 1e-6);
		assert_true(answer.bound - value <= 0.005 * best);
		if (answer.bound - value < 1e-9)
			assert_true(best - value < 1e-6);
	}
}

static void a_nest_that_no_plan_holds_is_told(void **state)
{
	struct nest_node node = { .parent = -1,
				  .cost = 10,
				  .value = 1,
				  .room = 9,
				  .drop_room = NEST_KEEP };
	struct nest nest = { 1, &node, true };
	struct front_answer answer;
	bool keep;

	(void)state;
	assert_int_equal(front_solve(&nest, FRONT_POINTS, &keep, &answer),
			 -ENOSPC);
	node.room = 10;
	assert_int_equal(front_solve(&nest, FRONT_POINTS, &keep, &answer), 0);
	assert_true(keep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_holds_in_the_safe_nest_holds_on_the_tape),
		cmocka_unit_test(no_plan_on_the_tape_beats_a_relaxed_nest),
		cmocka_unit_test(a_shared_note_is_no_credit_in_the_safe_nest),
		cmocka_unit_test(a_late_release_is_no_credit_in_the_safe_nest),
		cmocka_unit_test(
			the_relaxed_nest_gives_a_shared_note_to_its_last_call),
		cmocka_unit_test(
			a_long_chain_is_worth_what_a_table_of_all_bytes_says),
		cmocka_unit_test(a_nest_that_no_plan_holds_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
