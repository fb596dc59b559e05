#include "noted.h"

/* What each call alone would hold as long as it is alive. */
static void find_spare(struct tape *tape)
{
	for (size_t i = 0; i < tape->call_count; i++)
		tape->calls[i].spare = 0;
	for (size_t j = 0; j < tape->storage_count; j++) {
		const struct tape_storage *storage = &tape->storages[j];
		struct tape_call *call =
			&tape->calls[tape->savers[storage->first]];

		if (storage->count == 1 &&
		    tape_cost_from(storage, call, tape->segment_count) ==
			    call->from)
			call->spare += storage->bytes;
	}
}

/* Where each call's last recompute ends. */
static void find_done(struct tape *tape)
{
	for (size_t i = 0; i < tape->call_count; i++) {
		struct tape_call *call = &tape->calls[i];

		call->done = call->to;
		while (call->done < (int32_t)tape->segment_count &&
		       tape->segments[call->done].recomputes == (int32_t)i)
			call->done++;
	}
}

/*
 * Not before the calls hold something themselves, nor where a call that is
 * kept holds nothing any more.
 */
static void find_range(const struct tape *tape, struct tape_noted *noted)
{
	noted->low = noted->from;
	noted->high = noted->to;
	for (uint32_t n = 0; n < noted->count; n++) {
		const struct tape_noter *noter =
			&tape->noters[noted->first + n];
		const struct tape_call *call = &tape->calls[noter->call];

		if (noted->low < call->from)
			noted->low = call->from;
		if (call->done < noter->until && call->done < noted->high)
			noted->high = call->done;
	}
}

static bool set_off(struct tape *tape, const struct tape_noted *noted)
{
	const struct tape_noter *noters = tape->noters + noted->first;

	for (uint32_t n = 0; n < noted->count; n++)
		if (tape->calls[noters[n].call].spare < noted->bytes)
			return false;
	for (uint32_t n = 0; n < noted->count; n++)
		tape->calls[noters[n].call].spare -= noted->bytes;
	return true;
}

void noted_settle(struct tape *tape)
{
	find_done(tape);
	find_spare(tape);
	for (size_t j = 0; j < tape->noted_count; j++) {
		struct tape_noted *noted = &tape->noted[j];

		find_range(tape, noted);
		if (noted->low < noted->high && !set_off(tape, noted))
			noted->high = noted->low;
	}
}

int32_t noted_gone_from(const struct tape *tape, const struct tape_noted *noted,
			const bool *keep)
{
	int32_t from = noted->low;

	for (uint32_t n = 0; n < noted->count; n++) {
		const struct tape_noter *noter =
			&tape->noters[noted->first + n];

		if (!keep[noter->call] && from < noter->until)
			from = noter->until;
	}
	return from;
}

int32_t noted_last(const struct tape *tape, const struct tape_noted *noted)
{
	const struct tape_noter *noters = tape->noters + noted->first;
	uint32_t last = 0;

	for (uint32_t n = 1; n < noted->count; n++)
		if (noters[n].until > noters[last].until)
			last = n;
	return noters[last].call;
}
