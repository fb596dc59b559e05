/*
 * Storages that only notes hold. A dropped call's note holds the call's inputs
 * for its recompute; where nothing else does any more, the tape has bytes that
 * are not there once all those calls are kept. FORMATS.md says when.
 *
 * What is released is set off against what the kept calls hold themselves, so
 * that keeping a call never takes bytes from a segment that happens: the floor
 * and the planners rest on that.
 */
#ifndef CKPTPLAN_NOTED_H
#define CKPTPLAN_NOTED_H

#include "tape.h"

/* Fill the derived fields of noted storages; those of the marks are there. */
void noted_settle(struct tape *tape);

/*
 * The first segment in which a noted storage is gone under a plan; it is gone
 * up to `high` then, and nowhere when that is not above.
 */
int32_t noted_gone_from(const struct tape *tape, const struct tape_noted *noted,
			const bool *keep);

/* The call that holds a noted storage longest: while it is dropped, up to high. */
int32_t noted_last(const struct tape *tape, const struct tape_noted *noted);

#endif
