/* From a tape and a request to the plan that the files carry. */
#ifndef CKPTPLAN_SOLVE_H
#define CKPTPLAN_SOLVE_H

#include "plan_json.h"
#include "request.h"

/*
 * Answer one request on the tape of its kind (request.kind is not looked at;
 * request.base was applied by the caller with tape_move). On success the
 * caller frees with plan_free; else nothing is left. -EINVAL: the planner
 * refuses by name.
 */
int solve(const struct tape *tape, const struct request *request,
	  struct plan *plan, const struct why *why);

#endif
