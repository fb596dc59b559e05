/* The three documents: what is refused and why, and round trips. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "plan_files.h"
#include "plan_json.h"
#include "plan_tapes.h"
#include "run_json.h"
#include "tape_json.h"

/* NAME.txt beside NAME.json holds the message; without it the file is good. */
static char *message_of(const char *name)
{
	char other[256];
	char *message;

	snprintf(other, sizeof(other), "%.*s.txt",
		 (int)(strlen(name) - strlen(".json")), name);
	message = data_text(other);
	if (message)
		message[strcspn(message, "\n")] = '\0';
	return message;
}

static void check_result(const char *name, int result, const char *why)
{
	char *message = message_of(name);

	if (!message) {
		if (result)
			fail_msg("%s: %s", name, why);
		return;
	}
	if (result != -EINVAL || strcmp(why, message))
		fail_msg("%s: \"%s\", but wanted \"%s\"", name, why, message);
	free(message);
}

static void check_file(const char *format, const char *name)
{
	char *text = data_text(name);
	char why[512] = "";

	check_result(name, ckptplan_check(format, text, why, sizeof(why)), why);
	free(text);
}

static void check_profile(const char *name)
{
	check_file("profile", name);
}

static void check_run(const char *name)
{
	check_file("run", name);
}

/* Some plans are good in themselves but not for profile.json. */
static void check_plan(const char *name)
{
	char why[512] = "";
	char *text, *profile;

	if (strncmp(name, "plan_unfit_", 11)) {
		check_file("plan", name);
		return;
	}
	text = data_text(name);
	profile = data_text("profile.json");
	assert_int_equal(ckptplan_check("plan", text, why, sizeof(why)), 0);
	check_result(name, ckptplan_validate(text, profile, why, sizeof(why)),
		     why);
	free(text);
	free(profile);
}

static void every_document_is_taken_or_refused_by_name(void **state)
{
	(void)state;
	data_each("profile", check_profile);
	data_each("plan", check_plan);
	data_each("run", check_run);
}

static void a_plan_fits_the_kinds_that_its_profile_has(void **state)
{
	static const char *const plans[] = { "plan.json", "plan_of_two_kinds."
							  "json" };
	char *profile = data_text("profile.json");
	char why[512];

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *plan = data_text(plans[i]);

		assert_int_equal(ckptplan_validate(plan, profile, why,
						   sizeof(why)),
				 0);
		free(plan);
	}
	free(profile);
}

static void each_device_has_a_plan_of_its_own(void **state)
{
	static const char request[] = "{\"kind\":1,\"planner\":\"optimal\","
				      "\"target\":\"budget\","
				      "\"value\":50000}";
	char *profile = data_text("profile_of_two_devices.json");
	char *text = data_text("plan_of_two_devices.json"), *judged;
	char why_text[512];
	struct why why = { why_text, sizeof(why_text) };
	struct plans plans;

	(void)state;
	assert_int_equal(ckptplan_validate(text, profile, why_text,
					   sizeof(why_text)),
			 0);
	assert_int_equal(ckptplan_judge(text, profile, request, &judged,
					why_text, sizeof(why_text)),
			 0);
	assert_int_equal(plans_read(judged, &plans, &why), 0);
	assert_string_equal(plans.plans[0].device, "cuda:1");
	for (size_t i = 0; i < plans.plans[0].call_count; i++)
		assert_int_not_equal(plans.plans[0].calls[i].decision,
				     PLAN_RECOMPUTE);
	plans_free(&plans);
	free(text);
	ckptplan_free(judged);
	text = data_text("plan.json"); /* made where there was one device */
	assert_int_equal(ckptplan_judge(text, profile, request, &judged,
					why_text, sizeof(why_text)),
			 -EINVAL);
	free(text);
	free(profile);
}

static void a_text_is_refused_above_64_mib_or_of_an_unknown_format(void **state)
{
	char *text = malloc((64 << 20) + 2);
	char why[512];

	(void)state;
	memset(text, ' ', (64 << 20) + 1);
	text[(64 << 20) + 1] = '\0';
	assert_int_equal(ckptplan_check("plan", text, why, sizeof(why)),
			 -EINVAL);
	assert_string_equal(why, "text of more than 67108864 bytes");
	assert_int_equal(ckptplan_check("tape", "{}", why, sizeof(why)),
			 -EINVAL);
	assert_string_equal(why, "no format is named \"tape\"");
	free(text);
}

static void a_reason_is_cut_to_the_callers_buffer(void **state)
{
	char why[8] = "#######";

	(void)state;
	assert_int_equal(ckptplan_check("tape", "{}", why, sizeof(why)),
			 -EINVAL);
	assert_string_equal(why, "no form");
	assert_int_equal(ckptplan_check("tape", "{}", NULL, 0), -EINVAL);
}

/* More calls than the limit, told before any of them is read. */
static void more_calls_than_65536_are_refused(void **state)
{
	static const char head[] = "{\"format\":\"ckptagent.profile\","
				   "\"version\":1,"
				   "\"torch\":\"\",\"device\":\"\",\"kinds\":[{"
				   "\"root\":\"\","
				   "\"key\":\"\",\"fingerprint\":"
				   "\"0000000000000000\","
				   "\"size\":1,\"held\":{\"parameters\":0,"
				   "\"gradients\":0,"
				   "\"optimizer\":0,\"buffers\":0},"
				   "\"storages\":[],"
				   "\"segments\":[],\"calls\":[0";
	char *text = malloc(sizeof(head) + 2 * 65536 + 8), *end;
	char why[512];

	(void)state;
	end = stpcpy(text, head);
	for (int i = 0; i < 65536; i++)
		end = stpcpy(end, ",0");
	stpcpy(end, "]}]}");
	assert_int_equal(ckptplan_check("profile", text, why, sizeof(why)),
			 -EINVAL);
	assert_string_equal(why, "kinds[0].calls: more than 65536 entries");
	free(text);
}

static void a_profile_is_read_back_as_it_was_written(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct recipe recipe = { .shape = draw(&seed, SHAPE_COUNT),
					 .calls = 6,
					 .late = true,
					 .shared = true,
					 .noted = true,
					 .excluded = true };
		struct trace *trace = trace_make(&recipe, draw(&seed, 1 << 30));
		struct tape tape = trace_tape(trace);
		struct profile profile = { (char *)"2.13.0", (char *)"cpu", 1,
					   &tape };
		struct profile again;
		char why_text[512];
		struct why why = { why_text, sizeof(why_text) };
		char *text, *second;

		tape.device = round % 2 ? strdup("cuda:1") : NULL;
		text = profile_write(&profile);
		if (profile_read(text, &again, &why) < 0)
			fail_msg("%s", why_text);
		assert_int_equal(again.kinds[0].segment_count,
				 tape.segment_count);
		assert_memory_equal(again.kinds[0].segments, tape.segments,
				    tape.segment_count *
					    sizeof(*tape.segments));
		assert_int_equal(again.kinds[0].noted_count, tape.noted_count);
		assert_memory_equal(again.kinds[0].noted, tape.noted,
				    tape.noted_count * sizeof(*tape.noted));
		if (round % 2)
			assert_string_equal(again.kinds[0].device, "cuda:1");
		else
			assert_null(again.kinds[0].device);
		second = profile_write(&again);
		assert_string_equal(text, second);
		free(text);
		free(second);
		profile_free(&again);
		tape_free(&tape);
		trace_free(trace);
	}
}

static void plans_and_runs_are_read_back_as_they_were_written(void **state)
{
	static const char *const runs[] = { "run.json",
					    "run_without_budget.json",
					    "run_of_two_devices.json" };
	struct why why = { NULL, 0 };
	struct plans plans;
	struct run run;
	char *text, *first, *second;

	(void)state;
	text = data_text("plan_of_two_devices.json");
	assert_int_equal(plans_read(text, &plans, &why), 0);
	first = plans_write(&plans);
	assert_non_null(strstr(first, "cuda:1"));
	plans_free(&plans);
	assert_int_equal(plans_read(first, &plans, &why), 0);
	second = plans_write(&plans);
	assert_string_equal(first, second);
	plans_free(&plans);
	free(text);
	free(first);
	free(second);
	for (int i = 0; i < 3; i++) {
		text = data_text(runs[i]);
		assert_int_equal(run_read(text, &run, &why), 0);
		first = run_write(&run);
		run_free(&run);
		assert_int_equal(run_read(first, &run, &why), 0);
		second = run_write(&run);
		assert_string_equal(first, second);
		run_free(&run);
		free(text);
		free(first);
		free(second);
	}
}

/* What ckptplan_solve says to a request, on profile.json. */
static int answer(const char *request, char **plan, char *why, size_t size)
{
	char *profile = data_text("profile.json");
	int result = ckptplan_solve(profile, request, plan, why, size);

	free(profile);
	return result;
}

static void requests_are_refused_by_name(void **state)
{
	static const char *const bad[][2] = {
		{ "[]", "not an object" },
		{ "{}", "request.kind: missing" },
		{ "{\"kind\":1,\"planner\":\"optimal\","
		  "\"target\":\"budget\",\"value\":1}",
		  "request.kind: 1, but the profile has 1" },
		{ "{\"kind\":0,\"planner\":\"best\","
		  "\"target\":\"budget\",\"value\":1}",
		  "request.planner: unknown \"best\"" },
		{ "{\"kind\":0,\"planner\":\"optimal\","
		  "\"target\":\"time\",\"value\":1}",
		  "request.target: unknown \"time\"" },
		{ "{\"kind\":0,\"planner\":\"optimal\","
		  "\"target\":\"budget\",\"value\":\"max\"}",
		  "request.value: unknown \"max\"" },
		{ "{\"kind\":0,\"planner\":\"optimal\","
		  "\"target\":\"activation_budget\",\"value\":\"min\"}",
		  "request.value: not an integer" },
		{ "{\"kind\":0,\"planner\":\"optimal\","
		  "\"target\":\"saving\",\"value\":1.5}",
		  "request.value: not a fraction 0..1" },
		{ "{\"kind\":0,\"planner\":\"optimal\",\"speed\":1,"
		  "\"target\":\"saving\",\"value\":0.5}",
		  "request: unknown key \"speed\"" },
		{ "{\"kind\":0,\"planner\":\"optimal\",\"base_bytes\":-1,"
		  "\"target\":\"saving\",\"value\":0.5}",
		  "request.base_bytes: -1 is not in 0..4611686018427387903" },
	};
	char why[512];
	char *plan;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(answer(bad[i][0], &plan, why, sizeof(why)),
				 -EINVAL);
		assert_string_equal(why + (i == 0 ? strlen("request: ") : 0),
				    bad[i][1]);
		assert_null(plan);
	}
}

/* A request's plan on a profile of tests/data, read back; it must fit that. */
static struct plans solved_of(const char *name, const char *request)
{
	char *profile = data_text(name);
	char text[512];
	struct why why = { text, sizeof(text) };
	struct plans plans;
	char *plan;

	if (ckptplan_solve(profile, request, &plan, text, sizeof(text)) < 0)
		fail_msg("%s", text);
	if (ckptplan_validate(plan, profile, text, sizeof(text)) < 0)
		fail_msg("%s", text);
	if (plans_read(plan, &plans, &why) < 0)
		fail_msg("%s", text);
	ckptplan_free(plan);
	free(profile);
	return plans;
}

static struct plans solved(const char *request)
{
	return solved_of("profile.json", request);
}

static void the_shipped_plan_is_what_the_shipped_profile_needs(void **state)
{
	struct plans plans = solved("{\"kind\":0,\"planner\":\"optimal\","
				    "\"target\":\"budget\",\"value\":43000}");
	const struct plan *plan = plans.plans;

	(void)state;
	assert_int_equal(plan->predicted, 40008);
	assert_int_equal(plan->floor, 40008);
	assert_int_equal(plan->plain, 43008);
	assert_true(plan->feasible);
	assert_int_equal(plan->calls[0].decision, PLAN_RECOMPUTE);
	assert_int_equal(plan->calls[1].decision, PLAN_KEEP);
	assert_int_equal(plan->calls[2].decision, PLAN_EXCLUDE);
	assert_string_equal(plan->peak_name, "h.1");
	plans_free(&plans);
}

static void what_notes_alone_hold_is_not_in_the_plain_peak(void **state)
{
	struct plans plans = solved_of("profile_noted.json",
				       "{\"kind\":0,\"planner\":\"optimal\","
				       "\"target\":\"budget\","
				       "\"value\":\"min\"}");

	(void)state;
	assert_int_equal(plans.plans[0].floor, 40008);
	assert_int_equal(plans.plans[0].plain, 43008 - 500 - 200);
	plans_free(&plans);
}

static void a_peak_beyond_the_most_bytes_is_written_as_the_most(void **state)
{
	struct plans plans = solved_of("profile_peak_beyond_the_most.json",
				       "{\"kind\":0,\"planner\":\"uniform\","
				       "\"target\":\"saving\",\"value\":0.5}");

	(void)state;
	assert_int_equal(plans.plans[0].plain, TAPE_BYTES_MAX);
	plans_free(&plans);
}

static void a_budget_below_the_floor_gives_the_plan_at_the_floor(void **state)
{
	struct plans low = solved("{\"kind\":0,\"planner\":\"optimal\","
				  "\"target\":\"budget\",\"value\":1}");
	struct plans min = solved("{\"kind\":0,\"planner\":\"optimal\","
				  "\"target\":\"budget\",\"value\":\"min\"}");

	(void)state;
	assert_false(low.plans[0].feasible);
	assert_int_equal(low.plans[0].budget, 1);
	assert_int_equal(low.plans[0].predicted, low.plans[0].floor);
	assert_true(min.plans[0].feasible);
	assert_int_equal(min.plans[0].budget, min.plans[0].floor);
	assert_int_equal(min.plans[0].predicted, min.plans[0].floor);
	plans_free(&low);
	plans_free(&min);
}

static void a_moved_base_moves_the_figures(void **state)
{
	struct plans plans = solved("{\"kind\":0,\"planner\":\"optimal\","
				    "\"target\":"
				    "\"budget\",\"value\":43100,\"base_bytes\":"
				    "30108}");

	(void)state;
	assert_int_equal(plans.plans[0].floor, 40108);
	assert_int_equal(plans.plans[0].plain, 43108);
	assert_int_equal(plans.plans[0].predicted, 40108);
	plans_free(&plans);
}

static void a_saving_of_all_says_when_it_is_reached(void **state)
{
	struct plans plans = solved("{\"kind\":0,\"planner\":\"greedy\","
				    "\"target\":\"saving\",\"value\":1}");

	(void)state;
	assert_true(plans.plans[0].feasible);
	assert_int_equal(plans.plans[0].budget, plans.plans[0].predicted);
	assert_int_equal(plans.plans[0].calls[0].decision, PLAN_RECOMPUTE);
	plans_free(&plans);
	plans = solved("{\"kind\":0,\"planner\":\"no_checkpoint\","
		       "\"target\":\"activation_budget\",\"value\":5999}");
	assert_false(plans.plans[0].feasible);
	plans_free(&plans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_document_is_taken_or_refused_by_name),
		cmocka_unit_test(a_plan_fits_the_kinds_that_its_profile_has),
		cmocka_unit_test(each_device_has_a_plan_of_its_own),
		cmocka_unit_test(
			a_text_is_refused_above_64_mib_or_of_an_unknown_format),
		cmocka_unit_test(a_reason_is_cut_to_the_callers_buffer),
		cmocka_unit_test(more_calls_than_65536_are_refused),
		cmocka_unit_test(a_profile_is_read_back_as_it_was_written),
		cmocka_unit_test(
			plans_and_runs_are_read_back_as_they_were_written),
		cmocka_unit_test(requests_are_refused_by_name),
		cmocka_unit_test(
			the_shipped_plan_is_what_the_shipped_profile_needs),
		cmocka_unit_test(
			what_notes_alone_hold_is_not_in_the_plain_peak),
		cmocka_unit_test(
			a_peak_beyond_the_most_bytes_is_written_as_the_most),
		cmocka_unit_test(
			a_budget_below_the_floor_gives_the_plan_at_the_floor),
		cmocka_unit_test(a_moved_base_moves_the_figures),
		cmocka_unit_test(a_saving_of_all_says_when_it_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
