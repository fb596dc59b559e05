/*
 * The planners: each chooses, for one tape and one goal, which calls to keep.
 * They stand in one table (planner.c).
 */
#ifndef CKPTPLAN_PLANNER_H
#define CKPTPLAN_PLANNER_H

#include "tape.h"

enum goal_target {
	GOAL_PEAK,   /* a true peak of at most `bytes` */
	GOAL_SAVING, /* saved_bytes of the recomputed calls >= `bytes` */
};

/* A peak is one that some plan reaches: at least the tape's floor. */
struct goal {
	const struct tape *tape;
	enum goal_target target;
	int64_t bytes;
};

/*
 * Fill keep[i] for every call (true for one that cannot be dropped). Where the
 * goal is out of the planner's reach: its lowest peak, or every call dropped.
 * 0, -ENOMEM, or -EINVAL with `why`.
 */
typedef int planner_choose(const struct goal *goal, bool *keep,
			   const struct why *why);

struct planner {
	const char *name;
	const char *summary;
	planner_choose *choose;
};

/* Ends with a NULL name; the first is the default. */
extern const struct planner planners[];

const struct planner *planner_find(const char *name);

planner_choose optimal_choose, dynamic_programming_choose, greedy_choose,
	uniform_choose, checkpoint_all_choose, no_checkpoint_choose;

/*
 * What optimal_choose does, and how far from the optimum it can be: no plan
 * that meets the goal recomputes for less than the plan's time less *gap_ms.
 */
int optimal_choose_gap(const struct goal *goal, bool *keep, double *gap_ms,
		       const struct why *why);

#endif
