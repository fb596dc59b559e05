/*
 * Random iterations for the planner's tests. An iteration is made as a trace
 * of allocations, frees and marks, as an allocator would see it with every
 * call dropped; its tape is measured on that trace. The same trace can be
 * replayed with some calls kept, which shares nothing with the planner.
 */
#ifndef PLAN_TAPES_H
#define PLAN_TAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "tape.h"

enum shape {
	SHAPE_CHAIN,	/* all forwards, then all backwards in reverse */
	SHAPE_SIBLINGS, /* several chains, one after the other */
	SHAPE_TREE,	/* any nested order */
	SHAPE_CROSSING, /* any order; some calls have no backward */
	SHAPE_COUNT
};

struct recipe {
	enum shape shape;
	int calls;
	bool late;	   /* some storages outlive their drop */
	bool shared;	   /* some storages are saved by several calls */
	bool noted;	   /* notes hold the calls' inputs */
	bool sharp;	   /* one call an input; seen at once; gone with R */
	bool again;	   /* some calls are recomputed a second time */
	bool excluded;	   /* some calls cannot be dropped */
	bool proportional; /* recompute time nearly follows bytes */
	bool tight; /* small numbers: many ties, recomputes that matter */
};

struct trace;

struct trace *trace_make(const struct recipe *recipe, uint64_t seed);
void trace_free(struct trace *trace);

/* The tape that the trace leaves with everything dropped; tape_free. */
struct tape trace_tape(const struct trace *trace);

/* Other times for its storages, as a file may say that no job has written. */
void tape_scramble(struct tape *tape, uint64_t *seed);

/*
 * The highest live bytes when the calls in `keep` are kept: their storages go
 * at the first backward, they take no note and recompute nothing.
 */
int64_t trace_replay(const struct trace *trace, const bool *keep);

/* A random number below `below` (at least 1). */
uint64_t draw(uint64_t *state, uint64_t below);

#endif
