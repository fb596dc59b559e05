/*
 * libckptplan: from what one iteration cost and a budget to the cheapest plan.
 *
 * Pure functions: no globals, no clock, no torch, no Python, no files. Every
 * function may be called from any thread. Sizes are bytes, times milliseconds.
 * FORMATS.md beside this file draws every document and defines the true peak.
 *
 * Errors: functions return 0 or a negative errno value (-EINVAL: the input is
 * refused, -ENOMEM) and then fill `why` with one line that names the cause.
 */
#ifndef CKPTPLAN_PLAN_H
#define CKPTPLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exported; the rest of the library is hidden. */
#pragma GCC visibility push(default)

#define CKPTPLAN_ABI 1
int ckptplan_abi(void);

/*
 * Solve one request (text, see FORMATS.md) on a profile (text) and hand back a
 * plan document with one entry in *plan: malloc'ed text that the caller frees
 * with ckptplan_free. An infeasible budget is no error: the plan is then the
 * one with the lowest peak and says "feasible": false.
 */
int ckptplan_solve(const char *profile, const char *request, char **plan,
		   char *why, size_t why_size);

/* Check a document: format is "profile", "plan" or "run". */
int ckptplan_check(const char *format, const char *text, char *why,
		   size_t why_size);

/*
 * Check that a plan document fits a profile: fingerprint, names, calls, and no
 * decision "recompute" for a call that can only be kept. Plans for kinds that
 * the profile does not have are not looked at, but one must be for one it has.
 */
int ckptplan_validate(const char *plan, const char *profile, char *why,
		      size_t why_size);

/*
 * What a given plan costs: as ckptplan_solve, but the decisions are those of
 * the plan document's entry for the request's kind (the same fingerprint), and
 * so is the planner's name. -EINVAL too where the plan does not fit.
 */
int ckptplan_judge(const char *plan, const char *profile, const char *request,
		   char **judged, char *why, size_t why_size);

void ckptplan_free(char *text);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
