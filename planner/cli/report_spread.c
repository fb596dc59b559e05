#include "report_spread.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

#define NAMED_MOST 8 /* blocks that are listed by name */

static size_t decided(const struct run *run, enum plan_decision decision)
{
	size_t count = 0;

	for (size_t i = 0; i < run->block_count; i++)
		count += run->blocks[i].decision == decision;
	return count;
}

static bool recomputes(const struct run *run, const struct run_block *wanted)
{
	for (size_t i = 0; i < run->block_count; i++) {
		const struct run_block *block = &run->blocks[i];

		if (block->call == wanted->call &&
		    block->decision == PLAN_RECOMPUTE &&
		    !strcmp(block->name, wanted->name) &&
		    !strcmp(block->root, wanted->root))
			return true;
	}
	return false;
}

/* In how many runs a block is recomputed; `first` is the first of them. */
static size_t where(const struct run *runs, size_t count,
		    const struct run_block *block, size_t *first)
{
	size_t found = 0;

	for (size_t i = count; i-- > 0;) {
		if (recomputes(&runs[i], block)) {
			found++;
			*first = i;
		}
	}
	return found;
}

static void print_name(const struct run_block *block, size_t ranks)
{
	char line[512];

	snprintf(line, sizeof(line), "%s, call %lld: on %zu",
		 *block->name ? block->name : block->class_name,
		 (long long)block->call, ranks);
	text_line("  ", line);
}

/* Each block once: with the first run that recomputes it. */
static void print_differences(const struct run *runs, size_t count)
{
	size_t total = 0, first = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < runs[i].block_count; j++) {
			const struct run_block *block = &runs[i].blocks[j];
			size_t ranks;

			if (block->decision != PLAN_RECOMPUTE)
				continue;
			ranks = where(runs, count, block, &first);
			if (ranks == count || first != i)
				continue;
			if (!total++)
				puts("recomputed on some ranks only:");
			if (total <= NAMED_MOST)
				print_name(block, ranks);
		}
	}
	if (!total)
		puts("every rank recomputes the same blocks");
	else if (total > NAMED_MOST)
		printf("  and %zu more\n", total - NAMED_MOST);
}

static void print_range(const struct run *runs, size_t count,
			enum run_peak which, const char *what)
{
	int64_t low = INT64_MAX, high = -1;
	char least[TEXT_SIZE], most[TEXT_SIZE];

	for (size_t i = 0; i < count; i++) {
		int64_t peak = runs[i].peaks[which];

		if (peak < 0)
			continue;
		low = peak < low ? peak : low;
		high = peak > high ? peak : high;
	}
	if (high >= 0)
		printf("%zu ranks: %s peaks from %s to %s\n", count, what,
		       text_bytes(least, low), text_bytes(most, high));
}

static void add_rank(struct text_table *table, const struct run *run)
{
	char rank[TEXT_SIZE], last[TEXT_SIZE], max[TEXT_SIZE];
	char predicted[TEXT_SIZE], chosen[TEXT_SIZE], excluded[TEXT_SIZE];
	int64_t known = run->peaks[RUN_PREDICTED];

	text_row(table,
		 (const char *[]){
			 text_count(rank, run->rank),
			 text_bytes(last, run->peaks[RUN_LAST]),
			 text_bytes(max, run->peaks[RUN_MAX]),
			 text_bytes(predicted, known ? known : -1),
			 text_count(chosen,
				    (int64_t)decided(run, PLAN_RECOMPUTE)),
			 text_count(excluded,
				    (int64_t)decided(run, PLAN_EXCLUDE)) });
}

int report_spread(const struct run *runs, size_t count)
{
	struct text_table table = { .columns = "rrrrrr", .indent = 2 };
	int error;

	if (count < 2)
		return 0;
	text_row(&table,
		 (const char *[]){ "rank", "last peak", "highest", "predicted",
				   "recomputed", "excluded" });
	for (size_t i = 0; i < count; i++)
		add_rank(&table, &runs[i]);
	error = text_print(&table);
	if (error)
		return error;
	print_range(runs, count, RUN_LAST, "last");
	print_range(runs, count, RUN_MAX, "highest");
	print_differences(runs, count);
	return 0;
}
