/* The public functions: text in, text out. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "plan_json.h"
#include "run_json.h"
#include "solve.h"
#include "tape_json.h"
#include "why.h"

int ckptplan_abi(void)
{
	return CKPTPLAN_ABI;
}

static int solve_profile(struct profile *profile, const struct request *request,
			 char **text, const struct why *why)
{
	struct plan plan;
	struct plans plans = { 1, &plan };
	struct tape *tape;
	int error;

	if (request->kind >= (int64_t)profile->kind_count)
		return why_refuse(why,
				  "request.kind: %lld, but the profile "
				  "has %zu",
				  (long long)request->kind,
				  profile->kind_count);
	tape = &profile->kinds[request->kind];
	if (request->base >= 0)
		tape_move(tape, request->base);
	error = solve(tape, request, &plan, why);
	if (error)
		return error;
	*text = plans_write(&plans);
	plan_free(&plan);
	return *text ? 0 : why_memory(why);
}

int ckptplan_solve(const char *profile, const char *request, char **plan,
		   char *why, size_t why_size)
{
	struct why cause = { why, why_size };
	struct request wanted;
	struct profile read;
	int error = request_read(request, &wanted, &cause);

	*plan = NULL;
	if (error)
		return error;
	error = profile_read(profile, &read, &cause);
	if (error)
		return error;
	error = solve_profile(&read, &wanted, plan, &cause);
	profile_free(&read);
	return error;
}

/*
 * The plan for a kind: the one with its fingerprint for its device, of the same
 * key if any.
 */
static const struct plan *plan_for(const struct plans *plans,
				   const struct tape *tape)
{
	const struct plan *found = NULL;

	for (size_t i = 0; i < plans->count; i++) {
		const struct plan *plan = &plans->plans[i];

		if (strcmp(plan->fingerprint, tape->fingerprint) ||
		    !tape_same_device(plan->device, tape->device))
			continue;
		if (!found || !strcmp(plan->key, tape->key))
			found = plan;
	}
	return found;
}

static int judge_plan(const struct plans *plans, struct profile *profile,
		      struct request *request, char **text,
		      const struct why *why)
{
	const struct plan *plan;
	bool *keep;
	int error = plans_fit(plans, profile, why);

	if (error)
		return error;
	plan = request->kind < (int64_t)profile->kind_count ?
		       plan_for(plans, &profile->kinds[request->kind]) :
		       NULL;
	if (!plan)
		return why_refuse(why, "no plan is for this kind of iteration");
	keep = malloc(plan->call_count + 1);
	if (!keep)
		return why_memory(why);
	for (size_t i = 0; i < plan->call_count; i++)
		keep[i] = plan->calls[i].decision != PLAN_RECOMPUTE;
	request->keep = keep;
	request->planner = planner_find(plan->planner);
	error = solve_profile(profile, request, text, why);
	free(keep);
	return error;
}

int ckptplan_judge(const char *plan, const char *profile, const char *request,
		   char **judged, char *why, size_t why_size)
{
	struct why cause = { why, why_size };
	struct request wanted;
	struct profile read;
	struct plans plans;
	int error = request_read(request, &wanted, &cause);

	*judged = NULL;
	if (!error)
		error = plans_read(plan, &plans, &cause);
	if (error)
		return error;
	error = profile_read(profile, &read, &cause);
	if (!error) {
		error = judge_plan(&plans, &read, &wanted, judged, &cause);
		profile_free(&read);
	}
	plans_free(&plans);
	return error;
}

static int check_profile(const char *text, const struct why *why)
{
	struct profile profile;
	int error = profile_read(text, &profile, why);

	profile_free(&profile);
	return error;
}

static int check_plan(const char *text, const struct why *why)
{
	struct plans plans;
	int error = plans_read(text, &plans, why);

	plans_free(&plans);
	return error;
}

static int check_run(const char *text, const struct why *why)
{
	struct run run;
	int error = run_read(text, &run, why);

	run_free(&run);
	return error;
}

static const struct {
	const char *name;
	int (*check)(const char *text, const struct why *why);
} formats[] = {
	{ "profile", check_profile },
	{ "plan", check_plan },
	{ "run", check_run },
};

int ckptplan_check(const char *format, const char *text, char *why,
		   size_t why_size)
{
	struct why cause = { why, why_size };

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(format, formats[i].name))
			return formats[i].check(text, &cause);
	return why_refuse(&cause, "no format is named \"%.64s\"", format);
}

int ckptplan_validate(const char *plan, const char *profile, char *why,
		      size_t why_size)
{
	struct why cause = { why, why_size };
	struct plans plans;
	struct profile read;
	int error = plans_read(plan, &plans, &cause);

	if (error)
		return error;
	error = profile_read(profile, &read, &cause);
	if (!error)
		error = plans_fit(&plans, &read, &cause);
	plans_free(&plans);
	profile_free(&read);
	return error;
}

void ckptplan_free(char *text)
{
	free(text);
}
