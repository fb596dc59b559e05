/*
 * The knapsack behind a tape: droppable calls whose lifetimes nest, one byte
 * cost and one value (recompute time saved) each, and room for kept bytes at
 * every depth. The cost is what a kept call holds, less what its note would.
 *
 * The nodes stand in postorder: a node follows its subtree, which is the
 * contiguous range first..itself. With x_i = 1 for a kept call and A_i the
 * kept bytes of its strict ancestors, a plan must hold for every node
 *
 *     A_i + cost_i x_i <= room_i    and, if x_i = 0,    A_i <= drop_room_i
 *
 * and shall maximise the sum of value_i x_i.
 */
#ifndef CKPTPLAN_NEST_H
#define CKPTPLAN_NEST_H

#include "tape.h"

#define NEST_ANY INT64_MAX /* no limit */
#define NEST_KEEP (-1)	   /* a drop_room: the call must be kept */

struct nest_node {
	int32_t call;
	int32_t parent; /* -1: outermost */
	int32_t first;	/* of its subtree */
	int32_t children;
	int64_t cost;
	double value;
	int64_t room;
	int64_t drop_room;
};

struct nest {
	size_t count;
	struct nest_node *nodes;
	bool exact; /* the nest says just what the tape says */
};

/* How a tape that is no nest becomes one. */
enum nest_view {
	NEST_SAFE,    /* what holds in the nest holds on the tape */
	NEST_RELAXED, /* what holds on the tape holds in the nest */
};

struct nest_request {
	const struct tape *tape;
	int64_t budget;
	enum nest_view view;
	const bool *forced;   /* calls that every plan keeps */
	const int64_t *extra; /* bytes to add to each segment, or NULL */
	int32_t after;	      /* relaxed: look at segments > after only */
};

/* 0, or -ENOMEM and nothing to free. */
int nest_build(struct nest *nest, const struct nest_request *request);
void nest_free(struct nest *nest);

#endif
