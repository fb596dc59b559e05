/*
 * The lowest peak that any plan reaches, and the calls that every plan under
 * a budget must keep. Keeping a call only ever adds bytes to the segments that
 * happen (noted.h), and takes away its own recompute; so a recompute that does not fit
 * although only forced calls are kept forces its call too, and a segment that
 * always happens and does not fit proves that no plan does. Both answers are
 * exact on every tape.
 */
#ifndef CKPTPLAN_FLOOR_H
#define CKPTPLAN_FLOOR_H

#include "tape.h"

/*
 * The floor. `keep` (one flag a call) and `bytes` (segment count + 1) are
 * scratch.
 */
int64_t floor_bytes(const struct tape *tape, bool *keep, int64_t *bytes);

/*
 * keep[i] becomes true for the calls that every plan with a peak of at most
 * `budget` keeps; they alone are such a plan. False when there is none.
 */
bool floor_forced(const struct tape *tape, int64_t budget, bool *keep,
		  int64_t *bytes);

#endif
