/* ckptagent plan: every planner side by side on a profile, one plan written. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "documents.h"
#include "file.h"
#include "solve.h"
#include "text.h"
#include "units.h"

struct wish {
	const struct cli_command *command;
	const char *profile, *output;
	struct request request; /* of the planner whose plan is written */
	bool has_goal;
	long kind; /* -1: all */
};

static int set_goal(struct wish *wish, enum request_target target)
{
	if (wish->has_goal)
		return cli_misuse(wish->command, "more than one of --budget, "
						 "--activation-budget, "
						 "--saving");
	wish->has_goal = true;
	wish->request.target = target;
	return CLI_OK;
}

/* A share or max are about the job's device, which is not here. */
static int read_budget(struct wish *wish, const char *text)
{
	struct units_budget budget;

	if (units_budget(text, &budget) || budget.kind == UNITS_SHARE ||
	    budget.kind == UNITS_MAX || budget.bytes > TAPE_BYTES_MAX)
		return cli_misuse(wish->command,
				  "--budget: \"%s\" cannot be read; accepted: "
				  "a size such as 8G, 8GiB, 8GB, 8192M or "
				  "8589934592, min",
				  text);
	wish->request.min = budget.kind == UNITS_MIN;
	wish->request.bytes = (int64_t)budget.bytes;
	return set_goal(wish, REQUEST_BUDGET);
}

static int read_activation_budget(struct wish *wish, const char *text)
{
	uint64_t bytes = 0;

	if (strcmp(text, "0") &&
	    (units_bytes(text, &bytes) || bytes > TAPE_BYTES_MAX))
		return cli_misuse(wish->command,
				  "--activation-budget: \"%s\" cannot be "
				  "read; accepted: a size such as 8G, 8GiB, "
				  "8GB, 8192M or 8589934592",
				  text);
	wish->request.bytes = (int64_t)bytes;
	return set_goal(wish, REQUEST_ACTIVATION_BUDGET);
}

static int read_saving(struct wish *wish, const char *text)
{
	char *end;
	double fraction = strtod(text, &end);

	if (end == text || *end || !(fraction >= 0 && fraction <= 1))
		return cli_misuse(wish->command,
				  "--saving: \"%s\" cannot be read; accepted: "
				  "a fraction from 0 to 1",
				  text);
	wish->request.saving = fraction;
	return set_goal(wish, REQUEST_SAVING);
}

static int read_planner(struct wish *wish, const char *text)
{
	wish->request.planner = planner_find(text);
	if (wish->request.planner)
		return CLI_OK;
	cli_fault(wish->command, "--planner: \"%s\" is none; accepted:", text);
	for (const struct planner *p = planners; p->name; p++)
		fprintf(stderr, "  %-20s %s\n", p->name, p->summary);
	return CLI_USAGE;
}

static int read_kind(struct wish *wish, const char *text)
{
	char *end;

	errno = 0;
	wish->kind = strtol(text, &end, 10);
	if (end == text || *end || errno || wish->kind < 0)
		return cli_misuse(wish->command,
				  "--kind: \"%s\" is not a "
				  "number from 0",
				  text);
	return CLI_OK;
}

static int read_option(struct wish *wish, int option, const char *value)
{
	switch (option) {
	case 'b':
		return read_budget(wish, value);
	case 'a':
		return read_activation_budget(wish, value);
	case 's':
		return read_saving(wish, value);
	case 'p':
		return read_planner(wish, value);
	case 'k':
		return read_kind(wish, value);
	default:
		wish->output = value;
		return CLI_OK;
	}
}

/* 0; a status to leave with; or -1 when only the help was asked for. */
static int read_arguments(struct wish *wish, int argc, char **argv)
{
	static const struct option options[] = {
		{ "budget", 1, NULL, 'b' },
		{ "activation-budget", 1, NULL, 'a' },
		{ "saving", 1, NULL, 's' },
		{ "planner", 1, NULL, 'p' },
		{ "kind", 1, NULL, 'k' },
		{ "output", 1, NULL, 'o' },
		{ "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = CLI_OK;

	opterr = 0;
	while (!status && (option = getopt_long(argc, argv, ":ho:", options,
						NULL)) != -1) {
		if (option == 'h')
			return -1;
		if (option == '?')
			return cli_misuse(wish->command, "unknown option %s",
					  argv[optind - 1]);
		if (option == ':')
			return cli_misuse(wish->command, "%s needs a value",
					  argv[optind - 1]);
		status = read_option(wish, option, optarg);
	}
	if (status)
		return status;
	if (argc - optind != 1)
		return cli_misuse(wish->command, "needs one profile");
	if (!wish->has_goal)
		return cli_misuse(wish->command, "needs one of --budget, "
						 "--activation-budget, "
						 "--saving");
	wish->profile = argv[optind];
	return CLI_OK;
}

static void count_calls(const struct plan *plan, int *recomputed,
			int *droppable)
{
	*recomputed = *droppable = 0;
	for (size_t i = 0; i < plan->call_count; i++) {
		*recomputed += plan->calls[i].decision == PLAN_RECOMPUTE;
		*droppable += plan->calls[i].decision != PLAN_EXCLUDE;
	}
}

static void add_row(struct text_table *table, const struct plan *plan,
		    bool chosen)
{
	char peak[TEXT_SIZE], blocks[TEXT_SIZE], time[TEXT_SIZE];
	char gap[TEXT_SIZE], name[64];
	int recomputed, droppable;

	count_calls(plan, &recomputed, &droppable);
	snprintf(name, sizeof(name), "%s%s", chosen ? "* " : "  ",
		 plan->planner);
	snprintf(blocks, sizeof(blocks), "%d of %d", recomputed, droppable);
	text_row(table,
		 (const char *[]){ name, text_bytes(peak, plan->predicted),
				   plan->feasible ? "yes" : "no", blocks,
				   text_ms(time, plan->recompute_ms),
				   text_ms(gap, plan->gap_ms), "" });
}

static void add_refusal(struct text_table *table, const char *planner,
			const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "  %s", planner);
	text_row(table, (const char *[]){ name, "-", "-", "-", "-", "-", why });
}

/*
 * One kind of iteration: a row for each planner, and the chosen one's plan in
 * *chosen. CLI_OK, or CLI_USAGE after saying why the chosen one refused.
 */
static int compare(const struct wish *wish, const struct tape *tape,
		   struct text_table *table, struct plan *chosen)
{
	int status = CLI_USAGE;

	for (const struct planner *p = planners; p->name; p++) {
		char reason[256] = "";
		struct why why = { reason, sizeof(reason) };
		struct request request = wish->request;
		bool wanted = p == wish->request.planner;
		struct plan plan;

		request.planner = p;
		if (solve(tape, &request, &plan, &why) < 0) {
			add_refusal(table, p->name, reason);
			if (wanted)
				cli_fault(wish->command, "%s", reason);
			continue;
		}
		add_row(table, &plan, wanted);
		if (wanted) {
			*chosen = plan;
			status = CLI_OK;
		} else {
			plan_free(&plan);
		}
	}
	return status;
}

static void print_head(const struct tape *tape, const struct plan *plan,
		       size_t kind)
{
	char floor[TEXT_SIZE], plain[TEXT_SIZE], goal[TEXT_SIZE], line[512];

	snprintf(line, sizeof(line), "kind %zu: %s, %s%s%s, %zu calls", kind,
		 tape->root, tape->key, tape->device ? ", " : "",
		 tape->device ? tape->device : "", tape->call_count);
	text_line("", line);
	printf("peak with everything kept %s, lowest %s",
	       text_bytes(plain, plan->plain), text_bytes(floor, plan->floor));
	if (!strcmp(plan->target, request_targets[REQUEST_BUDGET]))
		printf(", budget %s", text_bytes(goal, plan->budget));
	printf("\n\n");
}

static int plan_kind(const struct wish *wish, const struct tape *tape,
		     size_t kind, struct plan *plan)
{
	struct text_table table = { .columns = "lrrrrrl" };
	int status;

	text_row(&table, (const char *[]){ "  planner", "peak", "held",
					   "recomputed", "time", "gap", "" });
	status = compare(wish, tape, &table, plan);
	if (!status)
		print_head(tape, plan, kind);
	if (text_print(&table) < 0)
		return cli_fault(wish->command, "out of memory");
	putchar('\n');
	return status;
}

static int write_plans(const struct wish *wish, const struct plans *plans)
{
	char *text = plans_write(plans);
	int error = text ? file_replace(wish->output, text) : -ENOMEM;

	free(text);
	if (error)
		return cli_fault(wish->command, "%s: %s", wish->output,
				 file_fault(error));
	printf("wrote %s: %s\n", wish->output, plans->plans[0].planner);
	return CLI_OK;
}

static int plan_all(const struct wish *wish, const struct profile *profile,
		    struct plans *plans)
{
	bool reached = true;
	int status = CLI_OK;

	for (size_t i = 0; !status && i < profile->kind_count; i++) {
		if (wish->kind >= 0 && (size_t)wish->kind != i)
			continue;
		status = plan_kind(wish, &profile->kinds[i], i,
				   &plans->plans[plans->count]);
		if (!status)
			reached &= plans->plans[plans->count++].feasible;
	}
	if (!status && wish->output)
		status = write_plans(wish, plans);
	return status ? status : reached ? CLI_OK : CLI_NO;
}

static int plan_profile(const struct wish *wish, const struct profile *profile)
{
	struct plans plans = { 0, calloc(profile->kind_count + 1,
					 sizeof(*plans.plans)) };
	int status;

	if (!plans.plans)
		return cli_fault(wish->command, "out of memory");
	if (!profile->kind_count)
		status = cli_fault(wish->command, "%s: kinds: empty",
				   wish->profile);
	else if (wish->kind >= (long)profile->kind_count)
		status = cli_fault(wish->command,
				   "--kind: %ld, but %s has "
				   "%zu",
				   wish->kind, wish->profile,
				   profile->kind_count);
	else
		status = plan_all(wish, profile, &plans);
	plans_free(&plans);
	return status;
}

int cli_plan(const struct cli_command *command, int argc, char **argv)
{
	struct wish wish = { .command = command,
			     .request = { .planner = &planners[0], .base = -1 },
			     .kind = -1 };
	struct profile profile;
	int status = read_arguments(&wish, argc, argv);

	if (status < 0) {
		cli_help(command);
		puts("\nPlanners:\n");
		for (const struct planner *p = planners; p->name; p++)
			printf("  %-20s %s\n", p->name, p->summary);
		return CLI_OK;
	}
	if (status)
		return status;
	status = documents_profile(command, wish.profile, &profile);
	if (status)
		return status;
	status = plan_profile(&wish, &profile);
	profile_free(&profile);
	return status;
}
