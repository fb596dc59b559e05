/* greedy: recompute the calls that save most per recompute time first. */
#include <stdlib.h>
#include <string.h>

#include "by_saving.h"

static int visit_prefixes(const struct saving_rank *order, size_t count,
			  bool *keep, struct by_saving_visitor *visitor)
{
	int64_t saved = 0;
	int status = visitor->visit(visitor, keep, 0);

	for (size_t i = 0; i < count && !status; i++) {
		keep[order[i].call] = false;
		saved += order[i].saved;
		if (order[i].saved > 0)
			status = visitor->visit(visitor, keep, saved);
	}
	return status;
}

static int greedy_sets(const struct tape *tape, int64_t from,
		       struct by_saving_visitor *visitor, const struct why *why)
{
	size_t calls = tape->call_count + 1;
	struct saving_rank *order = malloc(calls * sizeof(*order));
	bool *keep = malloc(calls);
	int status;

	(void)from;
	if (order && keep) {
		memset(keep, true, calls);
		status = visit_prefixes(order, by_saving_rank(tape, order),
					keep, visitor);
	} else {
		status = why_memory(why);
	}
	free(order);
	free(keep);
	return status;
}

int greedy_choose(const struct goal *goal, bool *keep, const struct why *why)
{
	return by_saving_choose(greedy_sets, goal, keep, why);
}
