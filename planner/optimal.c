/*
 * optimal: the least recompute time whose true peak holds. A tape whose
 * lifetimes nest, with one byte cost a call and no storage shared, is just a
 * nest, and solving that is exact. Any other tape is looked at from two sides:
 * a safe nest, whose plans all hold, and relaxed ones, whose best value no
 * plan can beat. The plans of both are confirmed and improved on the tape
 * itself, and the distance to the best relaxed value is the gap.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "front.h"
#include "improve.h"
#include "nest.h"
#include "planner.h"
#include "tape_peak.h"

#define TIGHTENINGS 8

struct search {
	const struct tape *tape;
	int64_t budget;
	bool *forced; /* what every plan keeps; alone it holds */
	bool *best;   /* the best plan that holds so far */
	bool *trial;
	int64_t *extra;	 /* bytes added to segments by tightening;
				   one entry more than segments */
	double best_ms;	 /* recompute time of best */
	double bound_ms; /* no plan that holds takes less */
	struct improve improve;
};

/* Droppable calls' recompute times together. */
static double total_ms(const struct tape *tape)
{
	double sum = 0;

	for (size_t i = 0; i < tape->call_count; i++)
		if (tape->calls[i].dropped)
			sum += tape->calls[i].recompute_ms;
	return sum;
}

static int solve_nest(const struct search *s, const struct nest *nest,
		      size_t points, struct front_answer *answer)
{
	memcpy(s->trial, s->forced, s->tape->call_count);
	return front_solve(nest, points, s->trial, answer);
}

static void accept_trial(struct search *s)
{
	double ms = tape_recompute_ms(s->tape, s->trial);

	if (ms >= s->best_ms)
		return;
	memcpy(s->best, s->trial, s->tape->call_count);
	s->best_ms = ms;
}

/* Confirm the trial on the tape, improve it there, keep it if it is best. */
static void improve_trial(struct search *s)
{
	improve_repair(&s->improve, s->trial);
	improve_plan(&s->improve, s->trial);
	accept_trial(s);
}

static int try_safe(struct search *s, bool *exact)
{
	struct nest_request request = { s->tape,   s->budget, NEST_SAFE,
					s->forced, NULL,      -1 };
	struct front_answer answer;
	struct nest nest;
	int error = nest_build(&nest, &request);

	if (error)
		return error;
	*exact = nest.exact;
	error = solve_nest(s, &nest, FRONT_POINTS, &answer);
	nest_free(&nest);
	if (error)
		return error == -ENOSPC ? 0 : error;
	improve_repair(&s->improve, s->trial);
	accept_trial(s);
	if (*exact)
		s->bound_ms = total_ms(s->tape) - answer.bound;
	return 0;
}

/* Where the trial does not hold, ask for that much more next time. */
static bool tighten(struct search *s)
{
	bool over = false;

	tape_peak(s->tape, s->trial, s->improve.bytes);
	for (size_t k = 0; k < s->tape->segment_count; k++) {
		if (s->improve.bytes[k] <= s->budget)
			continue;
		s->extra[k] += s->improve.bytes[k] - s->budget;
		over = true;
	}
	return over;
}

/*
 * The relaxed nest after one segment: its first value is a bound; then it is
 * tightened where its plan does not hold, and each plan is tried.
 */
static int try_relaxed(struct search *s, int32_t after)
{
	struct nest_request request = { s->tape,   s->budget, NEST_RELAXED,
					s->forced, s->extra,  after };

	memset(s->extra, 0, s->tape->segment_count * sizeof(*s->extra));
	for (int i = 0; i < TIGHTENINGS; i++) {
		struct front_answer answer;
		struct nest nest;
		int error = nest_build(&nest, &request);
		bool over;

		if (error)
			return error;
		error = solve_nest(s, &nest, FRONT_POINTS / 8, &answer);
		nest_free(&nest);
		if (error)
			return error == -ENOSPC ? 0 : error;
		if (i == 0)
			s->bound_ms = fmax(s->bound_ms,
					   total_ms(s->tape) - answer.bound);
		over = tighten(s);
		improve_trial(s);
		if (!over)
			return 0;
	}
	return 0;
}

/* The last segment in which a storage that costs later is freed, -1: none. */
static int32_t last_late(const struct tape *tape)
{
	int32_t last = -1;

	for (size_t j = 0; j < tape->storage_count; j++) {
		const struct tape_storage *storage = &tape->storages[j];

		for (uint32_t n = 0; n < storage->count; n++) {
			const struct tape_call *call =
				&tape->calls[tape->savers[storage->first + n]];

			if (storage->freed >= call->from &&
			    storage->freed + 1 < call->to &&
			    storage->freed > last)
				last = storage->freed;
		}
	}
	return last;
}

static int search_inexact(struct search *s)
{
	int32_t after = last_late(s->tape);
	int error;

	memcpy(s->trial, s->best, s->tape->call_count);
	improve_trial(s);
	error = try_relaxed(s, -1);
	if (!error && after >= 0)
		error = try_relaxed(s, after);
	return error;
}

/* The forced calls alone hold: start from them, then look from both sides. */
static int search(struct search *s)
{
	bool exact = false;
	int error;

	floor_forced(s->tape, s->budget, s->forced, s->extra);
	error = improve_init(&s->improve, s->tape, s->budget, s->forced);
	if (error)
		return error;
	memcpy(s->best, s->forced, s->tape->call_count);
	s->best_ms = tape_recompute_ms(s->tape, s->best);
	s->bound_ms = 0;
	error = try_safe(s, &exact);
	if (!error && !exact)
		error = search_inexact(s);
	return error;
}

static int choose_peak(const struct goal *goal, bool *keep, double *gap_ms,
		       const struct why *why)
{
	size_t calls = goal->tape->call_count + 1;
	struct search s = {
		.tape = goal->tape,
		.budget = goal->bytes,
		.forced = calloc(calls, 1),
		.best = keep,
		.trial = malloc(calls),
		.extra = malloc((goal->tape->segment_count + 1) *
				sizeof(int64_t)),
	};
	int error = s.forced && s.trial && s.extra ? search(&s) : -ENOMEM;

	*gap_ms = s.best_ms - s.bound_ms;
	free(s.forced);
	free(s.trial);
	free(s.extra);
	improve_free(&s.improve);
	return error ? why_memory(why) : 0;
}

/*
 * A sum of saved bytes is a nest as well: every call inside the one before,
 * and room for the bytes that need not be saved in the innermost.
 */
static int choose_saving(const struct goal *goal, bool *keep, double *gap_ms,
			 const struct why *why)
{
	const struct tape *tape = goal->tape;
	struct nest nest = { 0,
			     calloc(tape->call_count + 1, sizeof(*nest.nodes)),
			     true };
	struct front_answer answer;
	int64_t all = 0;
	int error;

	*gap_ms = 0;
	if (!nest.nodes)
		return why_memory(why);
	memset(keep, true, tape->call_count);
	for (size_t i = 0; i < tape->call_count; i++) {
		if (!tape->calls[i].dropped)
			continue;
		all += tape->calls[i].saved_bytes;
		nest.nodes[nest.count] = (struct nest_node){
			.call = (int32_t)i,
			.parent = (int32_t)nest.count + 1,
			.children = nest.count > 0,
			.cost = tape->calls[i].saved_bytes,
			.value = tape->calls[i].recompute_ms,
			.room = NEST_ANY,
			.drop_room = NEST_ANY,
		};
		nest.count++;
	}
	if (nest.count)
		nest.nodes[nest.count - 1].parent = -1;
	nest.nodes[0].room = all > goal->bytes ? all - goal->bytes : 0;
	error = front_solve(&nest, FRONT_POINTS, keep, &answer);
	free(nest.nodes);
	*gap_ms = answer.bound - answer.value;
	return error ? why_memory(why) : 0;
}

int optimal_choose_gap(const struct goal *goal, bool *keep, double *gap_ms,
		       const struct why *why)
{
	const struct tape *tape = goal->tape;
	int error = goal->target == GOAL_PEAK ?
			    choose_peak(goal, keep, gap_ms, why) :
			    choose_saving(goal, keep, gap_ms, why);

	if (error)
		return error;
	for (size_t i = 0; i < tape->call_count; i++)
		keep[i] |= !tape->calls[i].dropped;
	if (*gap_ms < 1e-9 * total_ms(tape))
		*gap_ms = 0;
	return 0;
}

int optimal_choose(const struct goal *goal, bool *keep, const struct why *why)
{
	double gap_ms;

	return optimal_choose_gap(goal, keep, &gap_ms, why);
}
