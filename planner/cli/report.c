/* ckptagent report: what the runs of a folder wrote. */
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "documents.h"
#include "report_peak.h"
#include "report_spread.h"
#include "text.h"

struct report {
	const struct cli_command *command;
	size_t count;
	struct run *runs;
	struct profile profile;
	bool has_profile;
	struct plans plans;
	bool has_plans;
};

/* A run writes 0 for what was never planned. */
static char *planned_bytes(char text[TEXT_SIZE], int64_t bytes)
{
	return text_bytes(text, bytes ? bytes : -1);
}

static bool over_budget(const struct run *run, enum run_peak which)
{
	return run->budget >= 0 && run->peaks[which] > run->budget;
}

/* The plan is judged by the last iteration; the first ones had none. */
static const char *verdict(const struct run *run)
{
	if (run->peaks[RUN_LAST] < 0)
		return "nothing measured";
	if (over_budget(run, RUN_LAST))
		return "not held";
	return over_budget(run, RUN_MAX) ? "held in the last iteration, not in all"
					 : "held";
}

static void print_head(const struct run *run)
{
	char line[512], budget[TEXT_SIZE];

	snprintf(line, sizeof(line),
		 "rank %lld, pid %lld, %s, torch %s, %lld iterations",
		 (long long)run->rank, (long long)run->pid, run->device,
		 run->torch, (long long)run->iterations);
	text_line("", line);
	if (run->budget < 0) {
		puts("no budget: measured only");
		return;
	}
	snprintf(line, sizeof(line), "budget %s, %s: %s%s",
		 text_bytes(budget, run->budget),
		 run->planner ? run->planner : "no planner", verdict(run),
		 run->feasible == 0 ? ", and out of reach" : "");
	text_line("", line);
}

static int print_peaks(const struct run *run)
{
	struct text_table table = { .columns = "rrrrr", .indent = 2 };
	char first[TEXT_SIZE], last[TEXT_SIZE], max[TEXT_SIZE];
	char predicted[TEXT_SIZE], floor[TEXT_SIZE];

	text_row(&table, (const char *[]){ "first peak", "last", "highest",
					   "predicted", "lowest possible" });
	text_bytes(first, run->peaks[RUN_FIRST]);
	text_bytes(last, run->peaks[RUN_LAST]);
	text_bytes(max, run->peaks[RUN_MAX]);
	planned_bytes(predicted, run->peaks[RUN_PREDICTED]);
	planned_bytes(floor, run->floor);
	text_row(&table,
		 (const char *[]){ first, last, max, predicted, floor });
	return text_print(&table);
}

static int print_devices(const struct run *run)
{
	struct text_table table = { .columns = "lrrrrr", .indent = 2 };

	if (!run->device_count)
		return 0;
	puts("\ndevices");
	text_row(&table, (const char *[]){ "name", "first peak", "last",
					   "highest", "predicted",
					   "lowest possible" });
	for (size_t i = 0; i < run->device_count; i++) {
		const struct run_device *device = &run->devices[i];
		char first[TEXT_SIZE], last[TEXT_SIZE], max[TEXT_SIZE];
		char predicted[TEXT_SIZE], floor[TEXT_SIZE];

		text_bytes(first, device->peaks[RUN_FIRST]);
		text_bytes(last, device->peaks[RUN_LAST]);
		text_bytes(max, device->peaks[RUN_MAX]);
		planned_bytes(predicted, device->peaks[RUN_PREDICTED]);
		planned_bytes(floor, device->floor);
		text_row(&table, (const char *[]){ device->name, first, last,
						   max, predicted, floor });
	}
	return text_print(&table);
}

static int print_kinds(const struct run *run)
{
	struct text_table table = { .columns = "llrrrr", .indent = 2 };
	char n[TEXT_SIZE], peak[TEXT_SIZE], predicted[TEXT_SIZE];
	char floor[TEXT_SIZE];

	if (!run->kind_count)
		return 0;
	puts("\nkinds of iteration");
	text_row(&table, (const char *[]){ "root", "key", "iterations", "peak",
					   "predicted", "lowest possible" });
	for (size_t i = 0; i < run->kind_count; i++) {
		const struct run_kind *kind = &run->kinds[i];

		text_row(&table,
			 (const char *[]){
				 kind->root, kind->key,
				 text_count(n, kind->iterations),
				 text_bytes(peak, kind->peak),
				 planned_bytes(predicted, kind->predicted),
				 planned_bytes(floor, kind->floor) });
	}
	return text_print(&table);
}

static void add_block(struct text_table *table, const struct run_block *block)
{
	char call[TEXT_SIZE], calls[TEXT_SIZE], saved[TEXT_SIZE];
	char inputs[TEXT_SIZE], time[TEXT_SIZE], recomputes[TEXT_SIZE];

	text_row(table,
		 (const char *[]){ block->name, block->class_name,
				   text_count(call, block->call),
				   text_count(calls, block->calls),
				   plan_decision_names[block->decision],
				   text_bytes(saved, block->saved_bytes),
				   text_bytes(inputs, block->boundary_bytes),
				   text_ms(time, block->forward_ms),
				   text_count(recomputes, block->recomputes),
				   block->reason ? block->reason : "" });
}

static int print_blocks(const struct run *run)
{
	struct text_table table = { .columns = "llrrlrrrrl", .indent = 2 };

	if (!run->block_count)
		return 0;
	puts("\nblocks");
	text_row(&table, (const char *[]){ "name", "class", "call", "calls",
					   "decision", "saved", "inputs",
					   "forward", "recomputes", "reason" });
	for (size_t i = 0; i < run->block_count; i++)
		add_block(&table, &run->blocks[i]);
	return text_print(&table);
}

static int print_ranges(const struct run *run)
{
	struct text_table table = { .columns = "lrlrr", .indent = 2 };
	char calls[TEXT_SIZE], peak[TEXT_SIZE], outside[TEXT_SIZE];

	if (!run->range_count)
		return 0;
	puts("\nNVTX ranges");
	text_row(&table, (const char *[]){ "name", "module calls", "block",
					   "at the peak", "outside torch" });
	for (size_t i = 0; i < run->range_count; i++) {
		const struct run_range *range = &run->ranges[i];

		text_row(&table,
			 (const char *[]){
				 range->name, text_count(calls, range->calls),
				 range->block ? range->block : "",
				 text_bytes(peak, range->peak_bytes),
				 text_bytes(outside, range->outside_bytes) });
	}
	return text_print(&table);
}

static int print_events(const struct run *run)
{
	struct text_table table = { .columns = "rll", .indent = 2 };
	char n[TEXT_SIZE];

	if (!run->event_count)
		return 0;
	puts("\nevents");
	text_row(&table, (const char *[]){ "iteration", "kind", "detail" });
	for (size_t i = 0; i < run->event_count; i++)
		text_row(&table,
			 (const char *[]){
				 text_count(n, run->events[i].iteration),
				 run->events[i].kind, run->events[i].detail });
	return text_print(&table);
}

static int print_run(const struct report *r, const struct run *run)
{
	const struct plans *plans = r->has_plans ? &r->plans : NULL;
	int error;

	print_head(run);
	error = print_peaks(run);
	if (!error)
		error = print_devices(run);
	if (!error)
		error = print_kinds(run);
	for (size_t i = 0;
	     !error && r->has_profile && i < r->profile.kind_count; i++)
		error = report_peak(&r->profile.kinds[i], plans, run);
	if (!error)
		error = print_blocks(run);
	if (!error)
		error = print_ranges(run);
	return error ? error : print_events(run);
}

static int by_rank(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int print_report(const struct report *r)
{
	int status = CLI_OK;

	qsort(r->runs, r->count, sizeof(*r->runs), by_rank);
	for (size_t i = 0; i < r->count; i++) {
		if (i)
			putchar('\n');
		if (print_run(r, &r->runs[i]) < 0)
			return cli_fault(r->command, "out of memory");
		if (over_budget(&r->runs[i], RUN_LAST))
			status = CLI_NO;
	}
	if (r->count > 1)
		putchar('\n');
	if (report_spread(r->runs, r->count) < 0)
		return cli_fault(r->command, "out of memory");
	return status;
}

/* What lies beside the runs, if it is there; a bad file is an error. */
static int read_beside(struct report *r, const char *folder)
{
	char path[PATH_MAX];
	int status = CLI_OK;

	snprintf(path, sizeof(path), "%s/profile.json", folder);
	if (!access(path, F_OK)) {
		status = documents_profile(r->command, path, &r->profile);
		r->has_profile = !status;
	}
	snprintf(path, sizeof(path), "%s/plan.json", folder);
	if (!status && !access(path, F_OK)) {
		status = documents_plans(r->command, path, &r->plans);
		r->has_plans = !status;
	}
	return status;
}

static int read_runs(struct report *r, char **paths, size_t count)
{
	int status = CLI_OK;

	r->runs = calloc(count, sizeof(*r->runs));
	if (!r->runs)
		return cli_fault(r->command, "out of memory");
	for (size_t i = 0; i < count && !status; i++) {
		status = documents_run(r->command, paths[i], &r->runs[i]);
		r->count += !status;
	}
	return status;
}

static int report_folder(struct report *r, const char *folder)
{
	glob_t found;
	int status;

	/* The folder's own name must not be read as a pattern. */
	if (chdir(folder) < 0)
		return cli_fault(r->command, "%s: %s", folder, strerror(errno));
	if (glob("run.*.json", 0, NULL, &found))
		return cli_fault(r->command, "%s: no run.*.json in it", folder);
	status = read_runs(r, found.gl_pathv, found.gl_pathc);
	globfree(&found);
	if (!status)
		status = read_beside(r, ".");
	return status ? status : print_report(r);
}

static int report_file(struct report *r, char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".";
	int status = read_runs(r, &path, 1);

	if (slash)
		snprintf(folder, sizeof(folder), "%.*s",
			 (int)(slash - path) + 1, path);
	if (!status)
		status = read_beside(r, folder);
	return status ? status : print_report(r);
}

static void free_report(struct report *r)
{
	for (size_t i = 0; i < r->count; i++)
		run_free(&r->runs[i]);
	free(r->runs);
	if (r->has_profile)
		profile_free(&r->profile);
	if (r->has_plans)
		plans_free(&r->plans);
}

int cli_report(const struct cli_command *command, int argc, char **argv)
{
	static const struct option options[] = { { "help", 0, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct report report = { .command = command };
	struct stat at;
	int option, status;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option != 'h')
			return cli_misuse(command, "unknown option %s",
					  argv[optind - 1]);
		cli_help(command);
		return CLI_OK;
	}
	if (argc - optind != 1)
		return cli_misuse(command, "needs a folder or a run.PID.json");
	if (stat(argv[optind], &at) < 0)
		return cli_fault(command, "%s: %s", argv[optind],
				 strerror(errno));
	status = S_ISDIR(at.st_mode) ? report_folder(&report, argv[optind]) :
				       report_file(&report, argv[optind]);
	free_report(&report);
	return status;
}
