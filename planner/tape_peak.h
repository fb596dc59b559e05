/*
 * The true peak of a plan on a tape, as FORMATS.md defines it, and who holds
 * the bytes there. A plan is one flag a call: keep[i] of a call that cannot
 * be dropped is ignored (the tape already holds its bytes).
 */
#ifndef CKPTPLAN_TAPE_PEAK_H
#define CKPTPLAN_TAPE_PEAK_H

#include "tape.h"

struct tape_peak {
	int64_t bytes;
	int32_t segment; /* the first that reaches it */
};

/*
 * O(segments + storages and their calls). `bytes` has one entry more than the
 * tape has segments; bytes[k] becomes the peak of segment k under the plan,
 * -1 where the segment does not happen.
 */
struct tape_peak tape_peak(const struct tape *tape, const bool *keep,
			   int64_t *bytes);

/*
 * What the plan's kept calls add to one segment that happens: held[i] (one
 * entry a call) is the bytes of call i, a shared storage counted at the first
 * of its kept calls alone, less the bytes that only its note would hold there
 * (counted at the first such call). None is negative. Returns their sum.
 */
int64_t tape_kept_bytes(const struct tape *tape, const bool *keep,
			int32_t segment, int64_t *held);

/*
 * Where in the iteration a segment lies, in words, e.g. "recompute of h.3" or
 * "between h.11 and the backward"; cut to the size of the text.
 */
void tape_segment_name(const struct tape *tape, int32_t segment, char *text,
		       size_t size);

#endif
