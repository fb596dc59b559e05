/*
 * Every allocation of the planner fails in turn, ours and jansson's: each time
 * the answer is -ENOMEM, and nothing is left behind. (Linked with --wrap for
 * the four allocating functions; leaks are counted here, sanitizer or not.)
 */
#include "check.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "plan_files.h"
#include "plan_json.h"
#include "run_json.h"
#include "tape_json.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);

static long countdown = -1; /* allocations until one fails, -1: never */
static long alive;	    /* blocks not yet freed, while counting */
static bool counting;

static bool fails(void)
{
	return countdown > 0 && --countdown == 0;
}

static void *counted(void *block)
{
	alive += counting && block;
	return block;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	void *block;

	if (fails())
		return NULL;
	block = __real_realloc(old, size);
	alive += counting && block && !old;
	return block;
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *block)
{
	alive -= counting && block;
	__real_free(block);
}

/*
 * jansson calls a failure within its parser now an end of memory, now a
 * syntax error. Its lexer collects a token in a buffer that it doubles, and does not
 * survive (2.14) when that fails; those sizes never fail here.
 */
static void *jansson_malloc(size_t size)
{
	bool lexer = size >= 32 && !(size & (size - 1));

	return lexer ? counted(__real_malloc(size)) : __wrap_malloc(size);
}

/* One call of the library that allocates; its result. */
typedef int action(void);

static char *texts[3]; /* profile, plan, run */
static bool jansson_fails;

static int solve_with(const char *request)
{
	char why[256];
	char *plan;
	int result = ckptplan_solve(texts[0], request, &plan, why, sizeof(why));

	ckptplan_free(plan);
	return result;
}

static int solve_optimal(void)
{
	return solve_with("{\"kind\":0,\"planner\":\"optimal\",\"target\":"
			  "\"budget\",\"value\":43000}");
}

static int solve_uniform(void)
{
	return solve_with("{\"kind\":0,\"planner\":\"uniform\",\"target\":"
			  "\"budget\",\"value\":43000}");
}

static int solve_greedy(void)
{
	return solve_with("{\"kind\":0,\"planner\":\"greedy\",\"target\":"
			  "\"activation_budget\",\"value\":3000}");
}

static int solve_dynamic_programming(void)
{
	return solve_with("{\"kind\":0,\"planner\":\"dynamic_programming\","
			  "\"target\":\"saving\",\"value\":0.5}");
}

static int check_text(const char *format, const char *text)
{
	char why[256];

	return ckptplan_check(format, text, why, sizeof(why));
}

static int check_plan(void)
{
	return check_text("plan", texts[1]);
}

static int check_run(void)
{
	return check_text("run", texts[2]);
}

static int validate(void)
{
	char why[256];

	return ckptplan_validate(texts[1], texts[0], why, sizeof(why));
}

static int write_profile(void)
{
	struct why why = { NULL, 0 };
	struct profile profile;
	char *text;
	int error = profile_read(texts[0], &profile, &why);

	if (error)
		return error;
	text = profile_write(&profile);
	profile_free(&profile);
	ckptplan_free(text);
	return text ? 0 : -ENOMEM;
}

static int write_run(void)
{
	struct why why = { NULL, 0 };
	struct run run;
	char *text;
	int error = run_read(texts[2], &run, &why);

	if (error)
		return error;
	text = run_write(&run);
	run_free(&run);
	ckptplan_free(text);
	return text ? 0 : -ENOMEM;
}

static void fail_each(action *act)
{
	for (long n = 1;; n++) {
		int result;

		alive = 0;
		counting = true;
		countdown = n;
		result = act();
		counting = false;
		assert_int_equal(alive, 0);
		if (countdown > 0) { /* there is no Nth allocation */
			countdown = -1;
			assert_int_equal(result, 0);
			return;
		}
		if (result != -ENOMEM && !(jansson_fails && result == -EINVAL))
			fail_msg("allocation %ld: %d", n, result);
	}
}

static void fail_each_of_all(void)
{
	static action *const actions[] = {
		solve_optimal, solve_uniform,
		solve_greedy,  solve_dynamic_programming,
		check_plan,    check_run,
		validate,      write_profile,
		write_run,
	};

	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		fail_each(actions[i]);
}

static void each_own_allocation_that_fails_is_no_memory(void **state)
{
	(void)state;
	jansson_fails = false;
	fail_each_of_all();
}

static void each_allocation_of_jansson_that_fails_leaves_nothing(void **state)
{
	(void)state;
	jansson_fails = true;
	json_set_alloc_funcs(jansson_malloc, __wrap_free);
	fail_each_of_all();
	json_set_alloc_funcs(__real_malloc, __real_free);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_own_allocation_that_fails_is_no_memory),
		cmocka_unit_test(
			each_allocation_of_jansson_that_fails_leaves_nothing),
	};
	int failed;

	texts[0] = data_text("profile_noted.json");
	texts[1] = data_text("plan.json");
	texts[2] = data_text("run.json");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 0; i < 3; i++)
		free(texts[i]);
	return failed;
}
