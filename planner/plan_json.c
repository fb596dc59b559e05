#include "plan_json.h"

#include <stdlib.h>
#include <string.h>

#include "json_read.h"
#include "json_write.h"
#include "planner.h"
#include "request.h"
#include "tape_json.h"

const char *const plan_decision_names[] = {
	[PLAN_KEEP] = "keep",
	[PLAN_RECOMPUTE] = "recompute",
	[PLAN_EXCLUDE] = "exclude",
	NULL,
};

static void read_decision(struct json_reader *reader, const json_t *json,
			  struct plan_call *call)
{
	static const char *const keys[] = { "name", "call", "decision", NULL };
	const char *word;

	json_read_keys(reader, json, keys);
	call->name = json_read_string(reader, json, "name");
	call->call = json_read_int(reader, json, "call", 0, INT32_MAX);
	word = json_read_word(reader, json, "decision", plan_decision_names);
	while (word && strcmp(word, plan_decision_names[call->decision]))
		call->decision++;
}

static void read_decisions(struct json_reader *reader, const json_t *json,
			   struct plan *plan)
{
	const json_t *list = json_read_list(reader, json, "decisions",
					    TAPE_CALLS_MAX, &plan->call_count);

	plan->calls = json_array_alloc(reader, plan->call_count,
				       sizeof(*plan->calls));
	for (size_t i = 0; !reader->error && i < plan->call_count; i++) {
		size_t mark = json_enter(reader, "decisions", (long)i);

		read_decision(reader, json_array_get(list, i), &plan->calls[i]);
		json_leave(reader, mark);
	}
}

static void read_peak(struct json_reader *reader, const json_t *json,
		      struct plan *plan)
{
	static const char *const keys[] = { "mark", "call", "name", NULL };
	static const char *const letters[] = { "S", "F", "E", "D", "B",
					       "R", "X", "Z", NULL };
	const json_t *peak = json_read_object(reader, json, "peak");
	size_t mark = json_enter(reader, "peak", -1);
	const char *letter;

	json_read_keys(reader, peak, keys);
	letter = json_read_word(reader, peak, "mark", letters);
	plan->peak_mark = letter ? *letter : 0;
	plan->peak_call = json_read_int(reader, peak, "call", -1,
					TAPE_CALLS_MAX - 1);
	plan->peak_name = json_read_string(reader, peak, "name");
	json_leave(reader, mark);
}

static void read_figures(struct json_reader *reader, const json_t *json,
			 struct plan *plan)
{
	plan->size = json_read_bytes(reader, json, "size");
	plan->budget = json_read_bytes(reader, json, "budget_bytes");
	plan->predicted = json_read_bytes(reader, json, "predicted_bytes");
	plan->floor = json_read_bytes(reader, json, "floor_bytes");
	plan->plain = json_read_bytes(reader, json, "plain_bytes");
	plan->feasible = json_read_bool(reader, json, "feasible");
	plan->recompute_ms = json_read_ms(reader, json, "recompute_ms");
	plan->gap_ms = json_read_ms(reader, json, "gap_ms");
	if (!reader->error &&
	    !strcmp(plan->target, request_targets[REQUEST_BUDGET]) &&
	    plan->feasible != (plan->predicted <= plan->budget))
		json_refuse(reader, "feasible: not what predicted_bytes and "
				    "budget_bytes say");
}

static const char *read_planner(struct json_reader *reader, const json_t *json)
{
	const char *names[16] = { NULL };

	for (int i = 0; planners[i].name; i++)
		names[i] = planners[i].name;
	return json_read_word(reader, json, "planner", names);
}

static void read_plan(struct json_reader *reader, const json_t *json,
		      struct plan *plan)
{
	static const char *const keys[] = {
		"root",	       "key",	      "fingerprint",  "size",
		"planner",     "target",      "budget_bytes", "predicted_bytes",
		"floor_bytes", "plain_bytes", "feasible",     "recompute_ms",
		"gap_ms",      "peak",	      "decisions",    "device",
		NULL,
	};

	json_read_keys(reader, json, keys);
	plan->root = json_read_string(reader, json, "root");
	plan->key = json_read_string(reader, json, "key");
	plan->fingerprint = json_read_fingerprint(reader, json);
	plan->device = json_read_string_or_none(reader, json, "device");
	plan->planner = read_planner(reader, json);
	plan->target = json_read_word(reader, json, "target", request_targets);
	read_figures(reader, json, plan);
	read_peak(reader, json, plan);
	read_decisions(reader, json, plan);
}

int plans_read(const char *text, struct plans *plans, const struct why *why)
{
	static const char *const keys[] = { "format", "version", "plans",
					    NULL };
	struct json_reader reader = { .why = why };
	json_t *json = json_read_document(&reader, text, "ckptagent.plan",
					  keys);
	const json_t *list = NULL;

	memset(plans, 0, sizeof(*plans));
	if (json)
		list = json_read_list(&reader, json, "plans", PLAN_PLANS_MAX,
				      &plans->count);
	plans->plans = json_array_alloc(&reader, plans->count,
					sizeof(*plans->plans));
	for (size_t i = 0; !reader.error && i < plans->count; i++) {
		size_t mark = json_enter(&reader, "plans", (long)i);

		read_plan(&reader, json_array_get(list, i), &plans->plans[i]);
		json_leave(&reader, mark);
	}
	json_decref(json);
	if (reader.error)
		plans_free(plans);
	return reader.error;
}

void plan_free(struct plan *plan)
{
	for (size_t i = 0; plan->calls && i < plan->call_count; i++)
		free(plan->calls[i].name);
	free(plan->root);
	free(plan->key);
	free(plan->fingerprint);
	free(plan->device);
	free(plan->peak_name);
	free(plan->calls);
}

void plans_free(struct plans *plans)
{
	for (size_t i = 0; plans->plans && i < plans->count; i++)
		plan_free(&plans->plans[i]);
	free(plans->plans);
	memset(plans, 0, sizeof(*plans));
}

static json_t *write_plan(const struct plan *plan)
{
	char mark[2] = { plan->peak_mark, '\0' };
	json_t *decisions = json_array();

	for (size_t i = 0; i < plan->call_count; i++)
		json_write_append(
			&decisions,
			json_pack("{ss sI ss}", "name", plan->calls[i].name,
				  "call", (json_int_t)plan->calls[i].call,
				  "decision",
				  plan_decision_names[plan->calls[i].decision]));
	return json_pack("{ss ss ss ss* sI ss ss sI sI sI sI sb sf sf "
			 "s{ss sI ss} so}",
			 "root", plan->root, "key", plan->key, "fingerprint",
			 plan->fingerprint, "device", plan->device, "size",
			 (json_int_t)plan->size,
			 "planner", plan->planner, "target", plan->target,
			 "budget_bytes", (json_int_t)plan->budget,
			 "predicted_bytes", (json_int_t)plan->predicted,
			 "floor_bytes", (json_int_t)plan->floor, "plain_bytes",
			 (json_int_t)plan->plain, "feasible", plan->feasible,
			 "recompute_ms", plan->recompute_ms, "gap_ms",
			 plan->gap_ms, "peak", "mark", mark, "call",
			 (json_int_t)plan->peak_call, "name", plan->peak_name,
			 "decisions", decisions);
}

char *plans_write(const struct plans *plans)
{
	json_t *list = json_array();

	for (size_t i = 0; i < plans->count; i++)
		json_write_append(&list, write_plan(&plans->plans[i]));
	return json_write_text(json_pack("{ss si so}", "format",
					 "ckptagent.plan", "version", 1,
					 "plans", list));
}

static const struct tape *kind_of(const struct profile *profile,
				  const struct plan *plan)
{
	for (size_t i = 0; i < profile->kind_count; i++)
		if (!strcmp(profile->kinds[i].key, plan->key) &&
		    !strcmp(profile->kinds[i].root, plan->root) &&
		    tape_same_device(profile->kinds[i].device, plan->device))
			return &profile->kinds[i];
	return NULL;
}

static int call_fits(size_t p, size_t i, const struct plan_call *call,
		     const struct tape_call *of, const struct why *why)
{
	if (strcmp(call->name, of->name) || call->call != of->call)
		return why_refuse(why,
				  "plans[%zu].decisions[%zu]: \"%.64s\" "
				  "call %lld, in the profile \"%.64s\" "
				  "call %lld",
				  p, i, call->name, (long long)call->call,
				  of->name, (long long)of->call);
	if ((call->decision == PLAN_EXCLUDE) == of->dropped)
		return why_refuse(why,
				  "plans[%zu].decisions[%zu]: %s, but "
				  "\"%.64s\" can %s",
				  p, i, plan_decision_names[call->decision],
				  of->name,
				  of->dropped ? "be dropped" : "only be kept");
	return 0;
}

static int plan_fits(size_t p, const struct plan *plan, const struct tape *tape,
		     const struct why *why)
{
	int error = 0;

	if (strcmp(plan->fingerprint, tape->fingerprint))
		return why_refuse(why,
				  "plans[%zu].fingerprint: %s, in the "
				  "profile %s: another model",
				  p, plan->fingerprint, tape->fingerprint);
	if (plan->call_count != tape->call_count)
		return why_refuse(why,
				  "plans[%zu].decisions: %zu, but the "
				  "profile has %zu calls",
				  p, plan->call_count, tape->call_count);
	for (size_t i = 0; i < plan->call_count && !error; i++)
		error = call_fits(p, i, &plan->calls[i], &tape->calls[i], why);
	return error;
}

int plans_fit(const struct plans *plans, const struct profile *profile,
	      const struct why *why)
{
	bool any = false;
	int error = 0;

	for (size_t p = 0; p < plans->count && !error; p++) {
		const struct tape *tape = kind_of(profile, &plans->plans[p]);

		any |= tape != NULL;
		if (tape)
			error = plan_fits(p, &plans->plans[p], tape, why);
	}
	if (!any && plans->count)
		return why_refuse(why,
				  "plans[0]: for \"%.64s\" of \"%.64s\"%s%.64s; "
				  "the profile has no kind of any plan",
				  plans->plans[0].key, plans->plans[0].root,
				  plans->plans[0].device ? " on " : "",
				  plans->plans[0].device ?
					  plans->plans[0].device :
					  "");
	return any ? error : why_refuse(why, "plans: empty");
}
