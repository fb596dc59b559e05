#include "plan_tapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_calls(const struct trace *t, struct tape *tape)
{
	for (int i = 0; i < t->recipe.calls; i++) {
		struct tape_call *call = &tape->calls[i];
		char name[16];

		snprintf(name, sizeof(name), "h.%d", i);
		call->name = strdup(name);
		call->class_name = strdup("Block");
		call->dropped = !t->excluded[i];
		call->reason = t->excluded[i] ? "collective" : NULL;
		call->forward_ms = call->recompute_ms = t->ms[i];
	}
}

static void fill_storages(const struct trace *t, struct tape *tape,
			  const int32_t *freed)
{
	uint32_t savers = 0;

	for (int id = 0; id < t->id_count; id++) {
		const struct memory *m = &t->ids[id];

		if (!m->watched)
			continue;
		tape->storages[tape->storage_count++] = (struct tape_storage){
			m->bytes, freed[id], savers, (uint32_t)m->saver_count
		};
		for (int s = 0; s < m->saver_count; s++) {
			tape->calls[m->savers[s]].saved_bytes += m->bytes;
			tape->savers[savers++] = m->savers[s];
		}
	}
}

/* What is measured of the inputs: segments, -1 where none is. */
struct measured {
	int32_t seen, until[CALLS_MAX];
};

static void fill_noted(const struct trace *t, struct tape *tape,
		       const int32_t *freed, const struct measured *measured)
{
	int32_t end = (int32_t)tape->segment_count;
	uint32_t noters = 0;

	for (int id = 0; id < t->id_count; id++) {
		struct tape_noted *noted = &tape->noted[tape->noted_count];

		*noted = (struct tape_noted){ .bytes = t->ids[id].bytes,
					      .from = measured[id].seen,
					      .to = freed[id] < 0 ?
							    end :
							    freed[id] + 1,
					      .first = noters };
		if (measured[id].seen < 0 || noted->from >= noted->to)
			continue;
		for (int i = 0; i < CALLS_MAX; i++) {
			int32_t until = measured[id].until[i];

			if (t->ids[id].noters[i])
				tape->noters[noters++] = (struct tape_noter){
					i, until < 0 ? end : until
				};
		}
		noted->count = noters - noted->first;
		tape->noted_count++;
	}
}

/* What an input's event does to live bytes, and what is known of it. */
static int64_t let_go_bytes(const struct trace *t, const struct event *event,
			    struct input *now, int32_t segment, int32_t *freed,
			    struct measured *measured)
{
	if (event->kind == 'w')
		measured->seen = segment;
	if (event->kind == 'u')
		measured->until[event->call] = segment + 1;
	if (!trace_frees_input(&t->ids[event->id], now, event, NULL))
		return 0;
	*freed = segment;
	return t->ids[event->id].bytes;
}

/* Live bytes over the trace, everything dropped: the segments. */
static void fill_segments(const struct trace *t, struct tape *tape,
			  int32_t *freed, struct measured *measured)
{
	struct input *inputs = calloc(IDS_MAX, sizeof(*inputs));
	int64_t live = 0;

	for (int e = 0; e < t->event_count; e++) {
		const struct event *event = &t->events[e];
		struct tape_segment *last = tape->segments +
					    tape->segment_count - 1;

		if (event->id < 0) {
			tape->segments[tape->segment_count++] =
				(struct tape_segment){ event->kind, event->call,
						       live, live, -1 };
			continue;
		}
		if (strchr("owu", event->kind)) {
			live -= let_go_bytes(t, event, &inputs[event->id],
					     (int32_t)tape->segment_count - 1,
					     &freed[event->id],
					     &measured[event->id]);
			continue;
		}
		live += event->kind == '-' ? -t->ids[event->id].bytes :
					     t->ids[event->id].bytes;
		if (event->kind == '-')
			freed[event->id] = (int32_t)tape->segment_count - 1;
		else if (tape->segment_count && live > last->peak)
			last->peak = live;
	}
	free(inputs);
}

struct tape trace_tape(const struct trace *t)
{
	struct tape tape = { .call_count = (size_t)t->recipe.calls };
	struct why why = { NULL, 0 };
	struct measured *measured = malloc(IDS_MAX * sizeof(*measured));
	int32_t freed[IDS_MAX];

	memset(freed, -1, sizeof(freed));
	memset(measured, -1, (size_t)t->id_count * sizeof(*measured));
	tape.root = strdup("Model");
	tape.key = strdup("Model(float32)");
	tape.fingerprint = strdup("0123456789abcdef");
	tape.calls = calloc(tape.call_count + 1, sizeof(*tape.calls));
	tape.storages = calloc(IDS_MAX, sizeof(*tape.storages));
	tape.segments = calloc(EVENTS_MAX, sizeof(*tape.segments));
	tape.savers = calloc((size_t)IDS_MAX * CALLS_MAX, sizeof(*tape.savers));
	tape.noted = calloc(IDS_MAX, sizeof(*tape.noted));
	tape.noters = calloc((size_t)IDS_MAX * CALLS_MAX, sizeof(*tape.noters));
	fill_calls(t, &tape);
	fill_segments(t, &tape, freed, measured);
	fill_storages(t, &tape, freed);
	fill_noted(t, &tape, freed, measured);
	free(measured);
	if (tape_index(&tape, "", &why) < 0)
		abort();
	return tape;
}

static void scramble_noted(struct tape *tape, struct tape_noted *noted,
			   uint64_t *seed)
{
	int32_t last = 0;

	for (uint32_t n = 0; n < noted->count; n++) {
		struct tape_noter *noter = &tape->noters[noted->first + n];

		if (draw(seed, 2))
			noter->until = 1 + (int32_t)draw(seed,
							 tape->segment_count);
		if (noter->until > last)
			last = noter->until;
	}
	if (noted->to > last || draw(seed, 3) == 0)
		noted->to = 1 + (int32_t)draw(seed, (uint64_t)last);
	if (noted->from >= noted->to || draw(seed, 3) == 0)
		noted->from = (int32_t)draw(seed, (uint64_t)noted->to);
}

void tape_scramble(struct tape *tape, uint64_t *seed)
{
	struct why why = { NULL, 0 };

	for (size_t j = 0; j < tape->storage_count; j++)
		if (draw(seed, 10) == 0)
			tape->storages[j].freed =
				(int32_t)draw(seed, tape->segment_count + 1) -
				1;
	for (size_t j = 0; j < tape->noted_count; j++)
		scramble_noted(tape, &tape->noted[j], seed);
	if (tape_index(tape, "", &why) < 0)
		abort();
}
