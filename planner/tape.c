#include "tape.h"

#include <stdlib.h>
#include <string.h>

#include "noted.h"

const char *const tape_held_names[TAPE_HELD_COUNT] = {
	"parameters",
	"gradients",
	"optimizer",
	"buffers",
};

const char *const tape_reasons[] = {
	"mutates_python_state", "mutates_arguments", "mutates_parameters",
	"global_effect",	"collective",	     "recompute_differs",
	"recompute_raises",	"no_gradient",	     "saves_nothing",
	"instance_forward",	"compiled",	     "scripted",
	"hooks_in_force",	"not_selected",	     NULL,
};

/* Where the walk over the marks stands. */
struct walk {
	struct tape *tape;
	int32_t open;	     /* the call between its F and D, -1: none */
	char open_mark;	     /* the mark that came last for it */
	int32_t newest;	     /* the call of the last F */
	int32_t recomputing; /* the call between a B and its R, -1: none */
};

static struct tape_call *marked_call(const struct walk *walk, size_t k)
{
	return &walk->tape->calls[walk->tape->segments[k].call];
}

static const char *walk_forward(struct walk *walk, size_t k)
{
	int32_t call = walk->tape->segments[k].call;

	if (walk->open >= 0)
		return "F inside the forward of another call";
	if (walk->recomputing >= 0)
		return "F inside a recompute";
	if (call <= walk->newest)
		return "F out of the order of the calls";
	walk->open = walk->newest = call;
	walk->open_mark = 'F';
	return NULL;
}

static const char *walk_exit(struct walk *walk, size_t k)
{
	if (walk->open != walk->tape->segments[k].call ||
	    walk->open_mark != 'F')
		return "E without its F";
	walk->open_mark = 'E';
	return NULL;
}

static const char *walk_drop(struct walk *walk, size_t k)
{
	if (walk->open != walk->tape->segments[k].call ||
	    walk->open_mark != 'E')
		return "D without its E";
	marked_call(walk, k)->from = (int32_t)k;
	walk->open = -1;
	return NULL;
}

static const char *walk_recompute(struct walk *walk, size_t k)
{
	struct tape_call *call = marked_call(walk, k);
	int32_t none = (int32_t)walk->tape->segment_count;

	if (!call->dropped)
		return "B of a call that is not dropped";
	if (call->from == none)
		return "B before its D";
	if (walk->recomputing >= 0)
		return "B inside a recompute";
	call->to = (int32_t)k;
	walk->recomputing = walk->tape->segments[k].call;
	return NULL;
}

static const char *walk_recomputed(struct walk *walk, size_t k)
{
	if (walk->recomputing != walk->tape->segments[k].call)
		return "R without its B";
	walk->recomputing = -1;
	return NULL;
}

static const char *walk_start(struct walk *walk, size_t k)
{
	(void)walk;
	return k == 0 ? NULL : "S may only stand first";
}

static const char *walk_end(struct walk *walk, size_t k)
{
	if (k + 1 != walk->tape->segment_count)
		return "Z may only stand last";
	if (walk->open >= 0)
		return "Z inside the forward of a call";
	if (walk->recomputing >= 0)
		return "Z inside a recompute";
	return NULL;
}

static const char *walk_freed(struct walk *walk, size_t k)
{
	(void)walk;
	(void)k;
	return NULL;
}

static const struct mark {
	char letter;
	bool of_call;
	const char *(*step)(struct walk *walk, size_t k);
} marks[] = {
	{ 'S', false, walk_start },    { 'F', true, walk_forward },
	{ 'E', true, walk_exit },      { 'D', true, walk_drop },
	{ 'B', true, walk_recompute }, { 'R', true, walk_recomputed },
	{ 'X', false, walk_freed },    { 'Z', false, walk_end },
};

static const struct mark *mark_of(char letter)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (marks[i].letter == letter)
			return &marks[i];
	return NULL;
}

static const char *walk_step(struct walk *walk, size_t k)
{
	struct tape_segment *segment = &walk->tape->segments[k];
	const struct mark *mark = mark_of(segment->mark);
	const char *fault;

	if (!mark)
		return "unknown mark";
	if (k == 0 && segment->mark != 'S')
		return "the first mark must be S";
	if (k + 1 == walk->tape->segment_count && segment->mark != 'Z')
		return "the last mark must be Z";
	if (mark->of_call != (segment->call >= 0))
		return mark->of_call ? "the mark needs a call" :
				       "the mark has no call";
	fault = mark->step(walk, k);
	segment->recomputes = walk->recomputing;
	return fault;
}

int tape_index(struct tape *tape, const char *place, const struct why *why)
{
	struct walk walk = { tape, -1, 0, -1, -1 };
	int32_t none = (int32_t)tape->segment_count;

	for (size_t i = 0; i < tape->call_count; i++)
		tape->calls[i].from = tape->calls[i].to = none;
	for (size_t k = 0; k < tape->segment_count; k++) {
		const char *fault = walk_step(&walk, k);

		if (fault)
			return why_refuse(why, "%ssegments[%zu]: %s", place, k,
					  fault);
	}
	for (size_t i = 0; i < tape->call_count; i++)
		if (tape->calls[i].dropped && tape->calls[i].from == none)
			return why_refuse(why,
					  "%scalls[%zu]: no F, E, D among "
					  "the segments",
					  place, i);
	noted_settle(tape);
	return 0;
}

bool tape_same_device(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static int64_t moved(int64_t bytes, int64_t shift)
{
	bytes += shift;
	if (bytes < 0)
		return 0;
	return bytes > TAPE_BYTES_MAX ? TAPE_BYTES_MAX : bytes;
}

void tape_move(struct tape *tape, int64_t base)
{
	int64_t shift = base - tape->segments[0].live;

	for (size_t k = 0; k < tape->segment_count; k++) {
		tape->segments[k].live = moved(tape->segments[k].live, shift);
		tape->segments[k].peak = moved(tape->segments[k].peak, shift);
	}
}

double tape_recompute_ms(const struct tape *tape, const bool *keep)
{
	double sum = 0;

	for (size_t i = 0; i < tape->call_count; i++)
		if (tape->calls[i].dropped && !keep[i])
			sum += tape->calls[i].recompute_ms;
	return sum;
}

void tape_free(struct tape *tape)
{
	for (size_t i = 0; tape->calls && i < tape->call_count; i++) {
		free(tape->calls[i].name);
		free(tape->calls[i].class_name);
	}
	free(tape->root);
	free(tape->key);
	free(tape->fingerprint);
	free(tape->device);
	free(tape->calls);
	free(tape->storages);
	free(tape->noted);
	free(tape->noters);
	free(tape->segments);
	free(tape->savers);
}

void profile_free(struct profile *profile)
{
	for (size_t i = 0; profile->kinds && i < profile->kind_count; i++)
		tape_free(&profile->kinds[i]);
	free(profile->kinds);
	free(profile->torch);
	free(profile->device);
}
