/*
 * Local search on the true peak, for tapes whose costs a nest only
 * approximates: every answer holds on the tape itself.
 */
#ifndef CKPTPLAN_IMPROVE_H
#define CKPTPLAN_IMPROVE_H

#include "tape.h"

struct improve {
	const struct tape *tape;
	int64_t budget;
	const bool *forced; /* calls that every plan keeps */
	int64_t *bytes;	    /* scratch: segment count + 1 */
	int64_t *held;	    /* scratch: one a call */
	int32_t *order;	    /* calls by recompute time a byte, falling */
	size_t count;	    /* how many of them */
	size_t trials;	    /* peaks it may still compute */
};

/* 0, or -ENOMEM. The caller ends with improve_free either way. */
int improve_init(struct improve *improve, const struct tape *tape,
		 int64_t budget, const bool *forced);
void improve_free(struct improve *improve);

/*
 * Drop the calls worth least per byte until the plan holds. The forced calls
 * alone must hold.
 */
void improve_repair(struct improve *improve, bool *keep);

/*
 * From a plan that holds: keep what still fits, and exchange a kept call for
 * a dearer dropped one where that holds.
 */
void improve_plan(struct improve *improve, bool *keep);

#endif
