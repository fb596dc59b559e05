#include "planner.h"

#include <string.h>

const struct planner planners[] = {
	{ "optimal", "the least recompute time under the true peak",
	  optimal_choose },
	{ "dynamic_programming",
	  "the least recompute time for the bytes saved, in steps of 1 MiB",
	  dynamic_programming_choose },
	{ "greedy", "most bytes saved per recompute time first",
	  greedy_choose },
	{ "uniform", "evenly spaced blocks", uniform_choose },
	{ "checkpoint_all", "every eligible block", checkpoint_all_choose },
	{ "no_checkpoint", "nothing", no_checkpoint_choose },
	{ NULL, NULL, NULL },
};

const struct planner *planner_find(const char *name)
{
	for (const struct planner *p = planners; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

/* The two that look at no goal. */

int checkpoint_all_choose(const struct goal *goal, bool *keep,
			  const struct why *why)
{
	(void)why;
	for (size_t i = 0; i < goal->tape->call_count; i++)
		keep[i] = !goal->tape->calls[i].dropped;
	return 0;
}

int no_checkpoint_choose(const struct goal *goal, bool *keep,
			 const struct why *why)
{
	(void)why;
	for (size_t i = 0; i < goal->tape->call_count; i++)
		keep[i] = true;
	return 0;
}
