/*
 * What uniform, greedy and dynamic_programming share: for each number of bytes
 * S they choose a set of calls to recompute whose saved_bytes reach S. A goal
 * of saved bytes is answered by that set, a goal of a peak by the set of the
 * smallest S whose true peak holds.
 */
#ifndef CKPTPLAN_BY_SAVING_H
#define CKPTPLAN_BY_SAVING_H

#include "planner.h"

/*
 * Handed one set after the other by rising S. `saved` is the sum of
 * saved_bytes of the calls that are not kept. Nonzero: stop and return it.
 */
struct by_saving_visitor {
	int (*visit)(struct by_saving_visitor *visitor, const bool *keep,
		     int64_t saved);
};

/* Visit the sets that are chosen for some S >= from, by rising S. */
typedef int by_saving_sets(const struct tape *tape, int64_t from,
			   struct by_saving_visitor *visitor,
			   const struct why *why);

int by_saving_choose(by_saving_sets *sets, const struct goal *goal, bool *keep,
		     const struct why *why);

/* A droppable call in the order of the greedy planner. */
struct saving_rank {
	double ratio; /* saved bytes per recompute time */
	double cost;  /* recompute time */
	int64_t saved;
	int32_t call;
};

/*
 * Fill `order` (room for every call) with the droppable calls and return how
 * many there are: by ratio falling, ties by saved bytes falling, recompute
 * time rising, position.
 */
size_t by_saving_rank(const struct tape *tape, struct saving_rank *order);

#endif
