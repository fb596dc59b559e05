#include "solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "tape_peak.h"

/* What a request asks of the tape, and where the answer is worked out. */
struct work {
	const struct tape *tape;
	const struct request *request;
	bool *keep, *other;
	int64_t *bytes; /* scratch of tape_peak */
	struct goal goal;
	int64_t reachable; /* saved bytes of all droppable calls */
	int64_t wanted;	   /* saved bytes asked for */
};

static void set_saving_goal(struct work *w)
{
	const struct tape *tape = w->tape;
	int64_t all = 0;
	double fraction = w->request->saving;

	for (size_t i = 0; i < tape->call_count; i++) {
		all += tape->calls[i].saved_bytes;
		if (tape->calls[i].dropped)
			w->reachable += tape->calls[i].saved_bytes;
	}
	if (w->request->target == REQUEST_SAVING)
		w->wanted = fraction < 1 ?
				    (int64_t)ceil(fraction * (double)all) :
				    all;
	else
		w->wanted = all > w->request->bytes ? all - w->request->bytes :
						      0;
	w->goal.target = GOAL_SAVING;
	w->goal.bytes = w->wanted < w->reachable ? w->wanted : w->reachable;
}

/* A peak and storages may add up to more than a document may say. */
static int64_t bounded(int64_t bytes)
{
	return bytes < TAPE_BYTES_MAX ? bytes : TAPE_BYTES_MAX;
}

static void set_goal(struct work *w, struct plan *plan)
{
	int64_t floor = floor_bytes(w->tape, w->keep, w->bytes);

	memset(w->keep, true, w->tape->call_count);
	plan->floor = bounded(floor);
	plan->plain = bounded(tape_peak(w->tape, w->keep, w->bytes).bytes);
	w->goal = (struct goal){ w->tape, GOAL_PEAK, floor };
	if (w->request->target != REQUEST_BUDGET)
		set_saving_goal(w);
	else if (!w->request->min && w->request->bytes > floor)
		w->goal.bytes = w->request->bytes;
}

/* A chosen plan against the optimum among those with no higher peak. */
static int find_gap(struct work *w, struct plan *plan, const struct why *why)
{
	struct goal goal = w->goal;
	double gap_ms;
	int error;

	if (goal.target == GOAL_PEAK && plan->predicted > goal.bytes)
		goal.bytes = plan->predicted;
	if (plan->recompute_ms <= 0)
		return 0;
	error = optimal_choose_gap(&goal, w->other, &gap_ms, why);
	if (error)
		return error;
	plan->gap_ms = plan->recompute_ms + gap_ms -
		       tape_recompute_ms(w->tape, w->other);
	if (plan->gap_ms < 0)
		plan->gap_ms = 0;
	return 0;
}

/* What a peak is named after: an X right after a drop is still after that. */
static const struct tape_segment *named(const struct tape *tape,
					int32_t segment)
{
	int32_t before = segment;

	while (tape->segments[before].mark == 'X')
		before--;
	if (tape->segments[before].mark == 'D')
		segment = before;
	return &tape->segments[segment];
}

static int choose(struct work *w, struct plan *plan, const struct why *why)
{
	bool optimal = w->request->planner->choose == optimal_choose;
	struct tape_peak peak;
	int error = 0;

	if (w->request->keep)
		memcpy(w->keep, w->request->keep, w->tape->call_count);
	else if (optimal)
		error = optimal_choose_gap(&w->goal, w->keep, &plan->gap_ms,
					   why);
	else
		error = w->request->planner->choose(&w->goal, w->keep, why);
	if (error)
		return error;
	peak = tape_peak(w->tape, w->keep, w->bytes);
	plan->predicted = bounded(peak.bytes);
	plan->peak_mark = named(w->tape, peak.segment)->mark;
	plan->peak_call = named(w->tape, peak.segment)->call;
	plan->recompute_ms = tape_recompute_ms(w->tape, w->keep);
	return optimal && !w->request->keep ? 0 : find_gap(w, plan, why);
}

static int64_t saved_by(const struct work *w)
{
	int64_t saved = 0;

	for (size_t i = 0; i < w->tape->call_count; i++)
		if (!w->keep[i])
			saved += w->tape->calls[i].saved_bytes;
	return saved;
}

static void judge(const struct work *w, struct plan *plan)
{
	if (w->request->target == REQUEST_BUDGET) {
		plan->budget = w->request->min ? plan->floor :
						 w->request->bytes;
		plan->feasible = plan->predicted <= plan->budget;
	} else {
		plan->budget = plan->predicted;
		plan->feasible = saved_by(w) >= w->wanted;
	}
}

static bool copy_calls(const struct work *w, struct plan *plan)
{
	const struct tape *tape = w->tape;

	plan->calls = calloc(tape->call_count + 1, sizeof(*plan->calls));
	if (!plan->calls)
		return false;
	plan->call_count = tape->call_count;
	for (size_t i = 0; i < tape->call_count; i++) {
		struct plan_call *call = &plan->calls[i];

		call->name = strdup(tape->calls[i].name);
		call->call = tape->calls[i].call;
		call->decision = !tape->calls[i].dropped ? PLAN_EXCLUDE :
				 w->keep[i]		 ? PLAN_KEEP :
							   PLAN_RECOMPUTE;
		if (!call->name)
			return false;
	}
	return true;
}

static bool copy_names(const struct work *w, struct plan *plan)
{
	const struct tape *tape = w->tape;

	plan->root = strdup(tape->root);
	plan->key = strdup(tape->key);
	plan->fingerprint = strdup(tape->fingerprint);
	plan->device = tape->device ? strdup(tape->device) : NULL;
	plan->peak_name = strdup(
		plan->peak_call < 0 ? "" : tape->calls[plan->peak_call].name);
	plan->size = tape->size;
	plan->planner = w->request->planner->name;
	plan->target = request_targets[w->request->target];
	return plan->root && plan->key && plan->fingerprint &&
	       plan->peak_name && (plan->device || !tape->device);
}

static int work_out(struct work *w, struct plan *plan, const struct why *why)
{
	int error;

	if (!w->keep || !w->other || !w->bytes)
		return why_memory(why);
	set_goal(w, plan);
	error = choose(w, plan, why);
	if (error)
		return error;
	judge(w, plan);
	if (!copy_names(w, plan) || !copy_calls(w, plan))
		return why_memory(why);
	return 0;
}

int solve(const struct tape *tape, const struct request *request,
	  struct plan *plan, const struct why *why)
{
	struct work w = {
		.tape = tape,
		.request = request,
		.keep = malloc(tape->call_count + 1),
		.other = malloc(tape->call_count + 1),
		.bytes = malloc((tape->segment_count + 1) * sizeof(int64_t)),
	};
	int error;

	memset(plan, 0, sizeof(*plan));
	error = work_out(&w, plan, why);
	if (error) {
		plan_free(plan);
		memset(plan, 0, sizeof(*plan));
	}
	free(w.keep);
	free(w.other);
	free(w.bytes);
	return error;
}
