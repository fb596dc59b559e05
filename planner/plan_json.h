/* plan.json: reading, writing, checking. FORMATS.md draws the document. */
#ifndef CKPTPLAN_PLAN_JSON_H
#define CKPTPLAN_PLAN_JSON_H

#include "tape.h"

#define PLAN_PLANS_MAX 1024

enum plan_decision {
	PLAN_KEEP,
	PLAN_RECOMPUTE,
	PLAN_EXCLUDE,
};

/* "keep", "recompute", "exclude", NULL. */
extern const char *const plan_decision_names[];

struct plan_call {
	char *name;
	int64_t call;
	enum plan_decision decision;
};

/* The plan of one kind of iteration. Owns its strings and calls. */
struct plan {
	char *root, *key, *fingerprint;
	char *device; /* NULL: the only one of this kind */
	int64_t size;
	const char *planner, *target; /* of the tables, not owned */
	int64_t budget, predicted, floor, plain;
	bool feasible;
	double recompute_ms, gap_ms;
	char peak_mark;
	int64_t peak_call;
	char *peak_name;
	size_t call_count;
	struct plan_call *calls;
};

/* A plan document. */
struct plans {
	size_t count;
	struct plan *plans;
};

/* On success the caller frees with plans_free; else nothing is left. */
int plans_read(const char *text, struct plans *plans, const struct why *why);
void plans_free(struct plans *plans);
void plan_free(struct plan *plan);

/* Malloc'ed text (free), NULL without memory. */
char *plans_write(const struct plans *plans);

/*
 * Does every plan that is for a kind of the profile fit it, and is there one?
 * Plans for other kinds are not looked at. 0 or -EINVAL.
 */
int plans_fit(const struct plans *plans, const struct profile *profile,
	      const struct why *why);

#endif
