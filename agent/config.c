#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 60

/* Reads one value into *config: false if it is refused. */
typedef bool read_fn(struct config *config, enum config_setting setting,
		     const char *value);

static read_fn read_budget, read_blocks, read_choice, read_path, read_later,
	read_log, read_disable, read_rehearse;

/*
 * The table. `accepted` is what a message offers; for a choice it is the list
 * itself.
 */
static const struct setting {
	const char *name;
	const char *variable;
	const char *standard;
	read_fn *read;
	const char *accepted;
} settings[CONFIG_SETTINGS] = {
	[CONFIG_BUDGET] = { "budget", "CKPT_BUDGET", "unset", read_budget,
			    "a size such as 8G, 8GiB, 8GB, 8192M or "
			    "8589934592, a share such as 70%, min, max" },
	[CONFIG_BLOCKS] = { "blocks", "CKPT_BLOCKS", "auto", read_blocks,
			    "auto, nvtx, re:REGEX, class:NAME[,NAME]" },
	[CONFIG_PLANNER] = { "planner", "CKPT_PLANNER", "optimal", read_choice,
			     "optimal, dynamic_programming, greedy, uniform, "
			     "checkpoint_all, no_checkpoint" },
	[CONFIG_PLAN] = { "plan", "CKPT_PLAN", "", read_path,
			  "the path of a plan file" },
	[CONFIG_ON_INFEASIBLE] = { "on_infeasible", "CKPT_ON_INFEASIBLE",
				   "best_effort", read_choice,
				   "best_effort, off, raise" },
	[CONFIG_PROOF] = { "proof", "CKPT_PROOF", "always", read_choice,
			   "always, sample, first" },
	[CONFIG_ON_MISMATCH] = { "on_mismatch", "CKPT_ON_MISMATCH", "raise",
				 read_choice, "raise, warn" },
	[CONFIG_SPILL] = { "spill", "CKPT_SPILL", "/var/tmp", read_path,
			   "the path of a folder" },
	[CONFIG_OUT] = { "out", "CKPT_OUT", "", read_path,
			 "the path of a folder" },
	[CONFIG_TIMING] = { "timing", "CKPT_TIMING", "events", read_choice,
			    "events, cupti" },
	[CONFIG_CACHE] = { "cache", "CKPT_CACHE", "", read_later,
			   "the path of a folder" },
	[CONFIG_TENSORBOARD] = { "tensorboard", "CKPT_TENSORBOARD", "",
				 read_later, "the path of a folder" },
	[CONFIG_LOG] = { "log", "CKPT_LOG", "warning", read_log,
			 "error, warning, info, debug, each with an optional "
			 ":FILE" },
	[CONFIG_DISABLE] = { "disable", "CKPT_DISABLE", "0", read_disable,
			     "0, 1" },
	[CONFIG_REHEARSE] = { "rehearse", "CKPT_REHEARSE", "0", read_rehearse,
			      "0 to 1000" },
};

static void keep(struct config *config, enum config_setting setting,
		 const char *value)
{
	memcpy(config->given[setting], value, strlen(value) + 1);
	config->value[setting] = config->given[setting];
}

static bool read_budget(struct config *config, enum config_setting setting,
			const char *value)
{
	if (units_budget(value, &config->budget))
		return false;
	config->has_budget = true;
	keep(config, setting, value);
	return true;
}

/* NAME[,NAME]: dotted Python identifiers, as far as C can tell. */
static bool class_names(const char *list)
{
	size_t n = 0;

	for (; *list; list++) {
		bool digit = *list >= '0' && *list <= '9';
		bool letter = (*list >= 'a' && *list <= 'z') ||
			      (*list >= 'A' && *list <= 'Z') || *list == '_' ||
			      (unsigned char)*list >= 0x80;
		bool end = *list == ',' || *list == '.';

		if (!(letter || ((digit || end) && n > 0)))
			return false;
		n = end ? 0 : n + 1;
	}
	return n > 0;
}

/* Whether REGEX is one is for Python's re to say, later. */
static bool read_blocks(struct config *config, enum config_setting setting,
			const char *value)
{
	if (strcmp(value, "auto") && strcmp(value, "nvtx") &&
	    !(!strncmp(value, "re:", 3) && value[3]) &&
	    !(!strncmp(value, "class:", 6) && class_names(value + 6)))
		return false;
	keep(config, setting, value);
	return true;
}

static bool read_choice(struct config *config, enum config_setting setting,
			const char *value)
{
	const char *choice = settings[setting].accepted;
	size_t n = strlen(value);

	while (strcspn(choice, ",") != n || strncmp(choice, value, n)) {
		choice = strstr(choice, ", ");
		if (!choice)
			return false;
		choice += 2;
	}
	keep(config, setting, value);
	return true;
}

static bool read_path(struct config *config, enum config_setting setting,
		      const char *value)
{
	keep(config, setting, value);
	return true;
}

static bool read_later(struct config *config, enum config_setting setting,
		       const char *value)
{
	snprintf(config->message[setting], CONFIG_MESSAGE_BYTES,
		 "%s: not yet, ignored", settings[setting].variable);
	keep(config, setting, value);
	return true;
}

static bool read_log(struct config *config, enum config_setting setting,
		     const char *value)
{
	char level[16] = { 0 };
	size_t n = strcspn(value, ":");
	int named;

	if (n >= sizeof(level) || (value[n] && !value[n + 1]))
		return false;
	memcpy(level, value, n);
	named = log_level_named(level);
	if (named < 0)
		return false;
	keep(config, setting, value);
	config->log_level = (enum log_level)named;
	if (value[n])
		config->log_file = config->value[setting] + n + 1;
	return true;
}

static bool read_disable(struct config *config, enum config_setting setting,
			 const char *value)
{
	if (strcmp(value, "0") && strcmp(value, "1"))
		return false;
	config->disabled = *value == '1';
	keep(config, setting, value);
	return true;
}

/* Iterations under a plan, without leading zeros; 0: it is no rehearsal. */
static bool read_rehearse(struct config *config, enum config_setting setting,
			  const char *value)
{
	size_t n = strlen(value);

	if (n > 4 || strspn(value, "0123456789") != n ||
	    (*value == '0' && n > 1) || (n == 4 && strcmp(value, "1000")))
		return false;
	keep(config, setting, value);
	return true;
}

/* What of a long value is shown: no half character at the cut. */
static int shown(const char *value)
{
	int n = SHOWN_BYTES;

	if (strlen(value) <= SHOWN_BYTES)
		return (int)strlen(value);
	while (n > 0 && ((unsigned char)value[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void refuse(struct config *config, enum config_setting setting,
		   const char *value)
{
	int n = shown(value);

	config->refused = true;
	snprintf(config->message[setting], CONFIG_MESSAGE_BYTES,
		 "%s: \"%.*s%s\" cannot be read; accepted: %s; the job runs "
		 "without the agent",
		 settings[setting].variable, n, value, value[n] ? "..." : "",
		 settings[setting].accepted);
}

void config_read(struct config *config, char *(*get)(const char *variable))
{
	config->refused = config->disabled = config->has_budget = false;
	config->log_level = LOG_WARNING;
	config->log_file = NULL;
	for (int i = 0; i < CONFIG_SETTINGS; i++) {
		const char *value = get(settings[i].variable);

		config->value[i] = settings[i].standard;
		*config->message[i] = '\0';
		if (!value || !*value)
			continue;
		if (strlen(value) >= CONFIG_VALUE_BYTES ||
		    !settings[i].read(config, i, value))
			refuse(config, i, value);
	}
}

void config_resolve(struct config *config, uint64_t device_memory)
{
	struct units_budget *budget = &config->budget;

	if (!config->has_budget)
		return;
	if (budget->kind == UNITS_SHARE)
		budget->bytes = units_share(device_memory, budget->millionths);
	if (budget->kind == UNITS_SHARE || budget->kind == UNITS_BYTES)
		snprintf(config->given[CONFIG_BUDGET], CONFIG_VALUE_BYTES,
			 "%" PRIu64, budget->bytes);
}

const char *config_value(const struct config *config, const char *name)
{
	for (int i = 0; i < CONFIG_SETTINGS; i++)
		if (!strcmp(settings[i].name, name))
			return config->value[i];
	return NULL;
}
