/* ckptagent run: a job with the agent preloaded. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "preload.h"

/* One flag for each variable that is a user's, in the order of the settings. */
#define FLAGS CONFIG_REHEARSE
static const struct flag {
	const char *name;  /* also the setting's, with '_' for '-' */
	const char *value; /* what the help calls it, NULL: none */
	const char *variable;
	const char *help;
} flags[FLAGS] = {
	{ "budget", "SIZE", "CKPT_BUDGET",
	  "the peak to hold: 8G, 70%, min, max (unset: measure)" },
	{ "blocks", "WHICH", "CKPT_BLOCKS",
	  "auto, nvtx, re:REGEX, class:NAME[,NAME]" },
	{ "planner", "NAME", "CKPT_PLANNER",
	  "optimal, dynamic_programming, greedy, uniform, ..." },
	{ "plan", "FILE", "CKPT_PLAN", "a plan to apply as it stands" },
	{ "on-infeasible", "WHAT", "CKPT_ON_INFEASIBLE",
	  "best_effort, off, raise" },
	{ "proof", "WHEN", "CKPT_PROOF", "always, sample, first" },
	{ "on-mismatch", "WHAT", "CKPT_ON_MISMATCH", "raise, warn" },
	{ "spill", "DIR", "CKPT_SPILL",
	  "for originals that await their proof" },
	{ "out", "DIR", "CKPT_OUT", "for the run's files" },
	{ "timing", "HOW", "CKPT_TIMING", "events, cupti" },
	{ "cache", "DIR", "CKPT_CACHE", "for learned profiles and plans" },
	{ "tensorboard", "DIR", "CKPT_TENSORBOARD", "for scalars" },
	{ "log", "LEVEL[:FILE]", "CKPT_LOG", "error, warning, info, debug" },
	{ "disable", NULL, "CKPT_DISABLE", "do nothing at all" },
};

static void print_help(const struct cli_command *command)
{
	char flag[40];

	cli_help(command);
	putchar('\n');
	for (int i = 0; i < FLAGS; i++) {
		snprintf(flag, sizeof(flag), "--%s%s%s", flags[i].name,
			 flags[i].value ? " " : "",
			 flags[i].value ? flags[i].value : "");
		printf("  %-24s %s\n", flag, flags[i].help);
	}
}

/* The values given as flags, for config_read, which asks by variable. */
static const char *given[FLAGS];

static char *get_given(const char *variable)
{
	for (int i = 0; i < FLAGS; i++)
		if (!strcmp(flags[i].variable, variable))
			/* as getenv: without const, and not to be changed */
			return (char *)(uintptr_t)given[i];
	return NULL;
}

/*
 * The agent's own reading of the values, before the job starts. Its message
 * "CKPT_X: what; the job runs without the agent" is ours up to the last part.
 */
static int check_given(const struct cli_command *command)
{
	static struct config config;

	config_read(&config, get_given);
	for (int i = 0; i < FLAGS; i++) {
		char *message = config.message[i];
		char *end = strstr(message, "; the job runs");
		size_t skip = strlen(flags[i].variable);

		if (!*message)
			continue;
		if (end)
			*end = '\0';
		cli_fault(command, "--%s%s", flags[i].name, message + skip);
	}
	return config.refused ? CLI_USAGE : CLI_OK;
}

/* 0; a status to leave with; or -1 when only the help was asked for. */
static int read_flags(const struct cli_command *command, int argc, char **argv)
{
	struct option options[FLAGS + 2] = { 0 };
	int option;

	for (int i = 0; i < FLAGS; i++)
		options[i] = (struct option){ flags[i].name,
					      flags[i].value != NULL, NULL,
					      i + 1 };
	options[FLAGS] = (struct option){ "help", 0, NULL, 'h' };
	opterr = 0;
	/* '+': the job's own flags are not ours. */
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		if (option == 'h')
			return -1;
		if (option == '?')
			return cli_misuse(command, "unknown option %s",
					  argv[optind - 1]);
		if (option == ':')
			return cli_misuse(command, "%s needs a value",
					  argv[optind - 1]);
		given[option - 1] = flags[option - 1].value ? optarg : "1";
	}
	if (optind == argc)
		return cli_misuse(command, "no command to run");
	return check_given(command);
}

static int set_variables(void)
{
	for (int i = 0; i < FLAGS; i++)
		if (given[i] && setenv(flags[i].variable, given[i], 1) < 0)
			return -ENOMEM;
	return 0;
}

int cli_run(const struct cli_command *command, int argc, char **argv)
{
	int status = read_flags(command, argc, argv);

	if (status < 0)
		print_help(command);
	if (status)
		return status < 0 ? CLI_OK : status;
	if (set_variables() < 0)
		return cli_fault(command, "out of memory");
	status = preload(command, NULL);
	if (status)
		return status;
	return preload_exec(command, argv + optind);
}
