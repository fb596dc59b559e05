#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#define TEXT_BYTES 16384

static struct config config;
static char environment[TEXT_BYTES];

/* What getenv() is to the agent: lines VARIABLE=value in `environment`. */
static char *get(const char *variable)
{
	static char value[TEXT_BYTES];
	size_t n = strlen(variable);

	for (const char *line = environment; *line;) {
		const char *end = strchrnul(line, '\n');

		if (!strncmp(line, variable, n) && line[n] == '=') {
			size_t bytes = (size_t)(end - line) - n - 1;

			memcpy(value, line + n + 1, bytes);
			value[bytes] = '\0';
			return value;
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

static void read_with(const char *lines)
{
	strcpy(environment, lines);
	config_read(&config, get);
}

static void assert_value(const char *name, const char *expected)
{
	assert_non_null(config_value(&config, name));
	assert_string_equal(config_value(&config, name), expected);
}

static void unset_variables_read_as_their_defaults(void **state)
{
	static const char *const defaults[][2] = {
		{ "budget", "unset" },
		{ "blocks", "auto" },
		{ "planner", "optimal" },
		{ "plan", "" },
		{ "on_infeasible", "best_effort" },
		{ "proof", "always" },
		{ "on_mismatch", "raise" },
		{ "spill", "/var/tmp" },
		{ "out", "" },
		{ "timing", "events" },
		{ "cache", "" },
		{ "tensorboard", "" },
		{ "log", "warning" },
		{ "disable", "0" },
		{ "rehearse", "0" },
	};

	(void)state;
	read_with("");
	for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++)
		assert_value(defaults[i][0], defaults[i][1]);
	assert_false(config.refused || config.disabled || config.has_budget);
	assert_int_equal(config.log_level, LOG_WARNING);
	assert_null(config.log_file);
	assert_null(config_value(&config, "CKPT_BUDGET"));
	assert_null(config_value(&config, ""));
}

static void an_empty_value_is_an_unset_variable(void **state)
{
	(void)state;
	read_with("CKPT_BUDGET=\nCKPT_PLANNER=\nCKPT_DISABLE=\nCKPT_CACHE=\n");
	assert_false(config.refused || config.disabled || config.has_budget);
	assert_value("planner", "optimal");
	assert_string_equal(config.message[CONFIG_CACHE], "");
}

static void every_accepted_value_is_kept_as_given(void **state)
{
	static const char *const values[][2] = {
		{ "BLOCKS", "auto" },
		{ "BLOCKS", "re:^h\\.[0-9]+$" },
		{ "BLOCKS", "nvtx" },
		{ "BLOCKS", "class:Block" },
		{ "BLOCKS", "class:my.pkg.Block2,_Layer,Größe" },
		{ "PLANNER", "optimal" },
		{ "PLANNER", "dynamic_programming" },
		{ "PLANNER", "greedy" },
		{ "PLANNER", "uniform" },
		{ "PLANNER", "checkpoint_all" },
		{ "PLANNER", "no_checkpoint" },
		{ "PLAN", "some/plan.json" },
		{ "ON_INFEASIBLE", "best_effort" },
		{ "ON_INFEASIBLE", "off" },
		{ "ON_INFEASIBLE", "raise" },
		{ "PROOF", "always" },
		{ "PROOF", "sample" },
		{ "PROOF", "first" },
		{ "ON_MISMATCH", "raise" },
		{ "ON_MISMATCH", "warn" },
		{ "SPILL", "/scratch" },
		{ "OUT", "out dir" },
		{ "TIMING", "events" },
		{ "TIMING", "cupti" },
		{ "LOG", "error" },
		{ "LOG", "warning" },
		{ "LOG", "info" },
		{ "LOG", "debug:/tmp/a:b" },
		{ "DISABLE", "0" },
		{ "DISABLE", "1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char line[256], name[32] = "";

		snprintf(line, sizeof(line), "CKPT_%s=%s\n", values[i][0],
			 values[i][1]);
		read_with(line);
		for (size_t k = 0; values[i][0][k]; k++)
			name[k] = (char)(values[i][0][k] == '_' ?
						 '_' :
						 values[i][0][k] | 0x20);
		assert_false(config.refused);
		assert_value(name, values[i][1]);
	}
}

static void a_budget_is_kept_in_bytes_once_the_memory_is_known(void **state)
{
	static const char *const budgets[][2] = {
		{ "8G", "8589934592" }, { "8GB", "8000000000" },
		{ "70%", "700" },	{ "12.5%", "125" },
		{ "min", "min" },	{ "max", "max" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(budgets) / sizeof(*budgets); i++) {
		char line[64];

		snprintf(line, sizeof(line), "CKPT_BUDGET=%s\n", budgets[i][0]);
		read_with(line);
		config_resolve(&config, 1000);
		assert_true(config.has_budget);
		assert_value("budget", budgets[i][1]);
	}
	read_with("");
	config_resolve(&config, 1000);
	assert_value("budget", "unset");
}

static void the_log_has_a_level_and_perhaps_a_file(void **state)
{
	(void)state;
	read_with("CKPT_LOG=debug:/tmp/a:b\n");
	assert_int_equal(config.log_level, LOG_DEBUG);
	assert_string_equal(config.log_file, "/tmp/a:b");
	read_with("CKPT_LOG=error\n");
	assert_int_equal(config.log_level, LOG_ERROR);
	assert_null(config.log_file);
}

static void disable_is_heard(void **state)
{
	(void)state;
	read_with("CKPT_DISABLE=1\n");
	assert_true(config.disabled);
}

static void slurp(const char *folder, const char *name, char text[TEXT_BYTES])
{
	char path[4096];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s is missing", path);
	n = fread(text, 1, TEXT_BYTES - 1, file);
	text[n] = '\0';
	fclose(file);
}

static void assert_messages(const char *name, const char *expected)
{
	static char messages[TEXT_BYTES];

	*messages = '\0';
	for (int i = 0; i < CONFIG_SETTINGS; i++) {
		strcat(messages, config.message[i]);
		if (*config.message[i])
			strcat(messages, "\n");
	}
	if (strcmp(messages, expected))
		fail_msg("%s gave\n%sinstead of\n%s", name, messages, expected);
	assert_int_equal(config.refused, !!strstr(expected, "runs without"));
}

static void every_bad_value_has_its_message(void **state)
{
	static char lines[TEXT_BYTES], expected[TEXT_BYTES];
	const char *source = getenv("srcdir");
	char folder[1024], message[512];
	struct dirent *entry;
	int cases = 0;
	DIR *open;

	(void)state;
	snprintf(folder, sizeof(folder), "%s/tests/data/settings",
		 source ? source : ".");
	open = opendir(folder);
	assert_non_null(open);
	while ((entry = readdir(open))) {
		size_t n = strcspn(entry->d_name, ".");

		if (strcmp(entry->d_name + n, ".env"))
			continue;
		snprintf(message, sizeof(message), "%.*s.message", (int)n,
			 entry->d_name);
		slurp(folder, entry->d_name, lines);
		slurp(folder, message, expected);
		read_with(lines);
		assert_messages(entry->d_name, expected);
		cases++;
	}
	closedir(open);
	assert_true(cases >= 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unset_variables_read_as_their_defaults),
		cmocka_unit_test(an_empty_value_is_an_unset_variable),
		cmocka_unit_test(every_accepted_value_is_kept_as_given),
		cmocka_unit_test(
			a_budget_is_kept_in_bytes_once_the_memory_is_known),
		cmocka_unit_test(the_log_has_a_level_and_perhaps_a_file),
		cmocka_unit_test(disable_is_heard),
		cmocka_unit_test(every_bad_value_has_its_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
