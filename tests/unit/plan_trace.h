/*
 * Random iterations for the planner's tests: each a trace of allocations, frees
 * and marks, as an allocator would see it with every call dropped. It can be
 * replayed with some calls kept, which shares nothing with the planner.
 */
#ifndef PLAN_TRACE_H
#define PLAN_TRACE_H

#include <stdbool.h>
#include <stdint.h>

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

#define CALLS_MAX 32
#define IDS_MAX 4096
#define EVENTS_MAX 16384

/*
 * Capital letters are marks; '+' and '-' allocate and free; 'c' allocates what
 * a recompute hands to the backward, which a kept call has already. An input
 * is freed when all but notes have let it go ('o') and each note has ('u' and
 * its call); 'w': it is seen that only notes hold it.
 */
struct event {
	char kind;
	int call, id;
};

struct memory {
	int64_t bytes;
	bool watched;
	int savers[CALLS_MAX], saver_count;
	bool freed;
	bool input, noters[CALLS_MAX];
};

/* Where an input stands. */
struct input {
	bool others_gone, gone[CALLS_MAX], freed, unseen;
};

struct trace {
	struct recipe recipe;
	uint64_t seed;
	struct event events[EVENTS_MAX];
	int event_count;
	struct memory ids[IDS_MAX];
	struct input inputs[IDS_MAX]; /* while it is made, all dropped */
	int id_count;
	bool excluded[CALLS_MAX];
	double ms[CALLS_MAX];
	int done[CALLS_MAX], done_count; /* calls after their backward */
	bool late_freed;		 /* since the last allocation or mark */
};

struct trace *trace_make(const struct recipe *recipe, uint64_t seed);
void trace_free(struct trace *trace);

/*
 * The highest live bytes when the calls in `keep` are kept: their storages go
 * at the first backward, they take no note and recompute nothing.
 */
int64_t trace_replay(const struct trace *trace, const bool *keep);

/*
 * Whether an input's event frees it; `now` is where the input stands. keep: the
 * calls that take no note, NULL for none.
 */
bool trace_frees_input(const struct memory *m, struct input *now,
		       const struct event *event, const bool *keep);

/* A random number below `below` (at least 1). */
uint64_t draw(uint64_t *state, uint64_t below);

#endif
