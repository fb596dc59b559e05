#include "tape_peak.h"

#include <stdio.h>
#include <string.h>

#include "noted.h"

/*
 * Add the union of the lifetimes of the kept calls of one storage to the
 * difference array. Calls rise, so their first costs do too, and one pass
 * joins them.
 */
static void add_storage(const struct tape *tape,
			const struct tape_storage *storage, const bool *keep,
			int64_t *change)
{
	const int32_t *savers = tape->savers + storage->first;
	int32_t done = 0;

	for (uint32_t i = 0; i < storage->count; i++) {
		const struct tape_call *call = &tape->calls[savers[i]];
		int32_t from = tape_cost_from(storage, call,
					      tape->segment_count);

		if (!keep[savers[i]] || !call->dropped)
			continue;
		if (from < done)
			from = done;
		if (from >= call->to)
			continue;
		change[from] += storage->bytes;
		change[call->to] -= storage->bytes;
		done = call->to;
	}
}

/* Take off what is not there any more for want of a note. */
static void add_noted(const struct tape *tape, const struct tape_noted *noted,
		      const bool *keep, int64_t *change)
{
	int32_t from = noted_gone_from(tape, noted, keep);

	if (from >= noted->high)
		return;
	change[from] -= noted->bytes;
	change[noted->high] += noted->bytes;
}

struct tape_peak tape_peak(const struct tape *tape, const bool *keep,
			   int64_t *bytes)
{
	struct tape_peak peak = { -1, 0 };
	int64_t kept = 0;

	memset(bytes, 0, (tape->segment_count + 1) * sizeof(*bytes));
	for (size_t j = 0; j < tape->storage_count; j++)
		add_storage(tape, &tape->storages[j], keep, bytes);
	for (size_t j = 0; j < tape->noted_count; j++)
		add_noted(tape, &tape->noted[j], keep, bytes);
	for (size_t k = 0; k < tape->segment_count; k++) {
		const struct tape_segment *segment = &tape->segments[k];

		kept += bytes[k];
		bytes[k] = segment->peak + kept;
		if (segment->recomputes >= 0 && keep[segment->recomputes])
			bytes[k] = -1;
		if (bytes[k] > peak.bytes)
			peak = (struct tape_peak){ bytes[k], (int32_t)k };
	}
	return peak;
}

/* Take it off the first call that would hold it still. */
static int64_t take_noted(const struct tape *tape,
			  const struct tape_noted *noted, const bool *keep,
			  int32_t segment, int64_t *held)
{
	const struct tape_noter *noter = tape->noters + noted->first;

	if (segment >= noted->high ||
	    segment < noted_gone_from(tape, noted, keep))
		return 0;
	while (noter->until <= segment)
		noter++;
	held[noter->call] -= noted->bytes;
	return noted->bytes;
}

int64_t tape_kept_bytes(const struct tape *tape, const bool *keep,
			int32_t segment, int64_t *held)
{
	int64_t sum = 0;

	memset(held, 0, tape->call_count * sizeof(*held));
	for (size_t j = 0; j < tape->storage_count; j++) {
		const struct tape_storage *storage = &tape->storages[j];

		for (uint32_t s = 0; s < storage->count; s++) {
			int32_t i = tape->savers[storage->first + s];
			const struct tape_call *call = &tape->calls[i];

			if (!keep[i] || !call->dropped || segment >= call->to ||
			    segment < tape_cost_from(storage, call,
						     tape->segment_count))
				continue;
			held[i] += storage->bytes;
			sum += storage->bytes;
			break;
		}
	}
	for (size_t j = 0; j < tape->noted_count; j++)
		sum -= take_noted(tape, &tape->noted[j], keep, segment, held);
	return sum;
}

/* The nearest earlier (step -1) or later (+1) mark of a call, -1: none. */
static int32_t neighbour(const struct tape *tape, int32_t segment, int step)
{
	for (int32_t k = segment; k >= 0 && k < (int32_t)tape->segment_count;
	     k += step)
		if (tape->segments[k].call >= 0 && (k != segment || step < 0))
			return k;
	return -1;
}

static void name_between(const struct tape *tape, int32_t last, int32_t next,
			 char *text, size_t size)
{
	const char *before = "the start", *after = "the end";
	const char *of = "";

	if (last >= 0)
		before = tape->calls[tape->segments[last].call].name;
	if (next >= 0) {
		after = tape->calls[tape->segments[next].call].name;
		if (tape->segments[next].mark == 'B')
			of = "the backward of ";
	}
	snprintf(text, size, "between %s%s and %s%s",
		 last >= 0 && tape->segments[last].mark == 'R' ? "the backward "
								 "of " :
								 "",
		 before, of, after);
}

void tape_segment_name(const struct tape *tape, int32_t segment, char *text,
		       size_t size)
{
	int32_t last = neighbour(tape, segment, -1);
	const char *name;

	if (last < 0 || tape->segments[last].mark == 'D') {
		name_between(tape, last, neighbour(tape, segment, 1), text,
			     size);
		return;
	}
	name = tape->calls[tape->segments[last].call].name;
	switch (tape->segments[last].mark) {
	case 'F':
	case 'E':
		snprintf(text, size, "forward of %s", name);
		break;
	case 'B':
		snprintf(text, size, "recompute of %s", name);
		break;
	default:
		if (tape->segments[segment].mark == 'Z')
			snprintf(text, size, "after the backward of %s", name);
		else
			snprintf(text, size, "backward of %s", name);
	}
}
