#include "by_saving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tape_peak.h"

enum {
	DONE = 1
};

struct choice {
	struct by_saving_visitor visitor;
	const struct goal *goal;
	bool *keep;	/* the set so far closest to the goal */
	int64_t *bytes; /* scratch of tape_peak */
	int64_t lowest; /* the peak of keep */
};

static int visit_saving(struct by_saving_visitor *visitor, const bool *keep,
			int64_t saved)
{
	struct choice *choice = (struct choice *)visitor;

	memcpy(choice->keep, keep, choice->goal->tape->call_count);
	return saved >= choice->goal->bytes ? DONE : 0;
}

static int visit_peak(struct by_saving_visitor *visitor, const bool *keep,
		      int64_t saved)
{
	struct choice *choice = (struct choice *)visitor;
	const struct tape *tape = choice->goal->tape;
	int64_t peak = tape_peak(tape, keep, choice->bytes).bytes;

	(void)saved;
	if (peak < choice->lowest) {
		memcpy(choice->keep, keep, tape->call_count);
		choice->lowest = peak;
	}
	return peak <= choice->goal->bytes ? DONE : 0;
}

int by_saving_choose(by_saving_sets *sets, const struct goal *goal, bool *keep,
		     const struct why *why)
{
	bool peak = goal->target == GOAL_PEAK;
	struct choice choice = { { peak ? visit_peak : visit_saving },
				 goal,
				 keep,
				 NULL,
				 INT64_MAX };
	int status;

	choice.bytes = malloc((goal->tape->segment_count + 1) *
			      sizeof(*choice.bytes));
	if (!choice.bytes)
		return why_memory(why);
	status = sets(goal->tape, peak ? 0 : goal->bytes, &choice.visitor, why);
	free(choice.bytes);
	return status == DONE ? 0 : status;
}

static int by_rank(const void *a, const void *b)
{
	const struct saving_rank *x = a, *y = b;

	if (x->ratio != y->ratio)
		return x->ratio > y->ratio ? -1 : 1;
	if (x->saved != y->saved)
		return x->saved > y->saved ? -1 : 1;
	if (x->cost != y->cost)
		return x->cost < y->cost ? -1 : 1;
	return x->call < y->call ? -1 : 1;
}

size_t by_saving_rank(const struct tape *tape, struct saving_rank *order)
{
	size_t count = 0;

	for (size_t i = 0; i < tape->call_count; i++) {
		const struct tape_call *call = &tape->calls[i];
		double saved = (double)call->saved_bytes;
		double ratio = saved > 0 ? INFINITY : 0;

		if (!call->dropped)
			continue;
		if (call->recompute_ms > 0)
			ratio = saved / call->recompute_ms;
		order[count++] = (struct saving_rank){
			ratio, call->recompute_ms, call->saved_bytes, (int32_t)i
		};
	}
	qsort(order, count, sizeof(*order), by_rank);
	return count;
}
