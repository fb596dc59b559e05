/* What to plan for: read from the request's text (FORMATS.md). */
#ifndef CKPTPLAN_REQUEST_H
#define CKPTPLAN_REQUEST_H

#include "planner.h"

enum request_target {
	REQUEST_BUDGET,
	REQUEST_ACTIVATION_BUDGET,
	REQUEST_SAVING,
};

/* NULL at its end, by enum request_target. */
extern const char *const request_targets[];

struct request {
	int64_t kind; /* index in the profile's kinds */
	const struct planner *planner;
	enum request_target target;
	bool min;      /* with a budget: the lowest peak */
	int64_t bytes; /* else the budget */
	double saving; /* the fraction of the activations, 0..1 */
	int64_t base;  /* live bytes at the start, -1: as measured */
	const bool *keep; /* judge this choice instead of making one */
};

int request_read(const char *text, struct request *request,
		 const struct why *why);

#endif
