#include "report_peak.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tape_peak.h"
#include "text.h"

#define SEGMENTS_SHOWN 5

struct view {
	const struct tape *tape;
	bool *keep;
	int64_t *bytes; /* of each segment under the plan */
	int64_t *held;	/* of each kept call at the peak */
	struct tape_peak peak;
	int64_t known; /* parameters, gradients, optimizer, buffers */
};

static const struct plan *plan_of(const struct plans *plans,
				  const struct tape *tape)
{
	for (size_t p = 0; plans && p < plans->count; p++) {
		const struct plan *plan = &plans->plans[p];

		if (!strcmp(plan->key, tape->key) &&
		    !strcmp(plan->root, tape->root) &&
		    !strcmp(plan->fingerprint, tape->fingerprint) &&
		    tape_same_device(plan->device, tape->device) &&
		    plan->call_count == tape->call_count)
			return plan;
	}
	return NULL;
}

static enum plan_decision decision_of(const struct run *run,
				      const struct tape *tape, size_t i)
{
	for (size_t b = 0; b < run->block_count; b++) {
		const struct run_block *block = &run->blocks[b];

		if (block->call == tape->calls[i].call &&
		    !strcmp(block->name, tape->calls[i].name) &&
		    !strcmp(block->root, tape->root))
			return block->decision;
	}
	return PLAN_KEEP;
}

static void set_keep(struct view *v, const struct plans *plans,
		     const struct run *run)
{
	const struct plan *plan = plan_of(plans, v->tape);

	for (size_t i = 0; i < v->tape->call_count; i++) {
		enum plan_decision decision = plan ? plan->calls[i].decision :
						     decision_of(run, v->tape,
								 i);

		v->keep[i] = decision != PLAN_RECOMPUTE;
	}
}

static void add_holder(struct text_table *table, const char *what,
		       int64_t bytes, int64_t of)
{
	char size[TEXT_SIZE], share[TEXT_SIZE];

	if (!bytes)
		return;
	snprintf(share, sizeof(share), "%.1f %%",
		 of ? 100 * (double)bytes / (double)of : 0);
	text_row(table,
		 (const char *[]){ what, text_bytes(size, bytes), share });
}

static int print_holders(struct view *v)
{
	static const char *const names[TAPE_HELD_COUNT] = {
		"parameters",
		"gradients",
		"optimizer state",
		"buffers",
	};
	struct text_table table = { .columns = "lrr", .indent = 2 };
	int64_t rest = v->peak.bytes - v->known;
	char line[256];

	for (int i = 0; i < TAPE_HELD_COUNT; i++)
		add_holder(&table, names[i], v->tape->held[i], v->peak.bytes);
	rest -= tape_kept_bytes(v->tape, v->keep, v->peak.segment, v->held);
	for (size_t i = 0; i < v->tape->call_count; i++) {
		const struct tape_call *call = &v->tape->calls[i];

		if (call->call)
			snprintf(line, sizeof(line), "kept: %s, call %lld",
				 call->name, (long long)call->call);
		else
			snprintf(line, sizeof(line), "kept: %s", call->name);
		add_holder(&table, line, v->held[i], v->peak.bytes);
	}
	add_holder(&table, "everything else", rest > 0 ? rest : 0,
		   v->peak.bytes);
	return text_print(&table);
}

static int32_t highest(const struct view *v)
{
	int32_t best = -1;

	for (size_t k = 0; k < v->tape->segment_count; k++)
		if (v->bytes[k] >= 0 &&
		    (best < 0 || v->bytes[k] > v->bytes[best]))
			best = (int32_t)k;
	return best;
}

/* A place of several segments is shown once, at its highest. */
static void take_off(struct view *v, const char *name)
{
	char other[256];

	for (size_t k = 0; k < v->tape->segment_count; k++) {
		tape_segment_name(v->tape, (int32_t)k, other, sizeof(other));
		if (!strcmp(name, other))
			v->bytes[k] = -1;
	}
}

static int print_segments(struct view *v)
{
	struct text_table table = { .columns = "lrrr", .indent = 2 };
	char name[256], live[TEXT_SIZE], kept[TEXT_SIZE], rest[TEXT_SIZE];

	text_row(&table, (const char *[]){ "highest segments", "live", "kept",
					   "everything else" });
	for (int i = 0; i < SEGMENTS_SHOWN; i++) {
		int32_t k = highest(v);
		int64_t other;

		if (k < 0)
			break;
		other = v->tape->segments[k].peak - v->known;
		tape_segment_name(v->tape, k, name, sizeof(name));
		text_bytes(live, v->bytes[k]);
		text_bytes(kept, v->bytes[k] - v->tape->segments[k].peak);
		text_bytes(rest, other > 0 ? other : 0);
		text_row(&table, (const char *[]){ name, live, kept, rest });
		take_off(v, name);
	}
	return text_print(&table);
}

static int print_view(struct view *v)
{
	char name[256], size[TEXT_SIZE], line[768];

	v->peak = tape_peak(v->tape, v->keep, v->bytes);
	for (int i = 0; i < TAPE_HELD_COUNT; i++)
		v->known += v->tape->held[i];
	tape_segment_name(v->tape, v->peak.segment, name, sizeof(name));
	snprintf(line, sizeof(line), "peak of %s, %s%s%s: %s in the plan, %s",
		 v->tape->root, v->tape->key, v->tape->device ? ", " : "",
		 v->tape->device ? v->tape->device : "",
		 text_bytes(size, v->peak.bytes), name);
	text_line("\n", line);
	if (print_holders(v) < 0)
		return -ENOMEM;
	putchar('\n');
	return print_segments(v);
}

int report_peak(const struct tape *tape, const struct plans *plans,
		const struct run *run)
{
	struct view v = {
		.tape = tape,
		.keep = malloc(tape->call_count + 1),
		.bytes = malloc((tape->segment_count + 1) * sizeof(*v.bytes)),
		.held = malloc((tape->call_count + 1) * sizeof(*v.held)),
	};
	int error = -ENOMEM;

	if (v.keep && v.bytes && v.held) {
		set_keep(&v, plans, run);
		error = print_view(&v);
	}
	free(v.keep);
	free(v.bytes);
	free(v.held);
	return error;
}
