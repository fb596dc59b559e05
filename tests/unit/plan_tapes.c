#include "plan_tapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 32
#define IDS_MAX 4096
#define EVENTS_MAX 16384

/*
 * Letters are marks; '+' and '-' allocate and free; 'c' allocates what a
 * recompute hands to the backward, which a kept call has already.
 */
struct event {
	char kind;
	int call, id;
};

struct memory {
	int64_t bytes;
	bool watched;
	int savers[CALLS_MAX], saver_count;
	bool freed;
};

struct trace {
	struct recipe recipe;
	uint64_t seed;
	struct event events[EVENTS_MAX];
	int event_count;
	struct memory ids[IDS_MAX];
	int id_count;
	bool excluded[CALLS_MAX];
	double ms[CALLS_MAX];
	int done[CALLS_MAX], done_count; /* calls after their backward */
	bool late_freed;		 /* since the last allocation or mark */
};

/* splitmix64 */
uint64_t draw(uint64_t *state, uint64_t below)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static bool chance(struct trace *t, int percent)
{
	return draw(&t->seed, 100) < (uint64_t)percent;
}

static int64_t some_bytes(struct trace *t)
{
	return 1 + (int64_t)draw(&t->seed, t->recipe.tight ? 6 : 1000000);
}

static void add(struct trace *t, char kind, int call, int id)
{
	t->events[t->event_count++] = (struct event){ kind, call, id };
	if (t->event_count == EVENTS_MAX)
		abort();
}

/* The ledger opens an X segment before it lets live bytes grow again. */
static int allocate(struct trace *t, char kind, int64_t bytes)
{
	int id = t->id_count++;

	if (id == IDS_MAX)
		abort();
	if (t->late_freed)
		add(t, 'X', -1, -1);
	t->late_freed = false;
	t->ids[id].bytes = bytes;
	add(t, kind, -1, id);
	return id;
}

static void release(struct trace *t, int id, bool late)
{
	add(t, '-', -1, id);
	t->ids[id].freed = true;
	t->late_freed |= late && t->ids[id].watched;
}

static void mark(struct trace *t, char letter, int call)
{
	add(t, letter, call, -1);
	t->late_freed = false;
}

/* Bytes that come and go within a segment. */
static void work(struct trace *t)
{
	int64_t bytes = some_bytes(t);

	if (chance(t, 30))
		bytes *= 4;
	if (chance(t, 60))
		release(t, allocate(t, '+', bytes), false);
}

/* Late storages go now and then; all of them at the end. */
static void release_some(struct trace *t, int percent)
{
	for (int id = 0; id < t->id_count; id++)
		if (t->ids[id].watched && !t->ids[id].freed &&
		    chance(t, percent))
			release(t, id, true);
}

static void save(struct trace *t, int id, int call)
{
	t->ids[id].watched = true;
	t->ids[id].savers[t->ids[id].saver_count++] = call;
}

static void save_shared(struct trace *t, int call)
{
	for (int id = 0; id < t->id_count; id++)
		if (t->ids[id].watched && !t->ids[id].freed && chance(t, 50))
			save(t, id, call);
}

static void forward(struct trace *t, int call)
{
	int own[3], count = 1 + (int)draw(&t->seed, 3);

	mark(t, 'F', call);
	work(t);
	if (t->recipe.shared && !t->excluded[call])
		save_shared(t, call);
	for (int i = 0; i < count; i++) {
		own[i] = allocate(t, '+', some_bytes(t));
		if (!t->excluded[call])
			save(t, own[i], call);
	}
	work(t);
	mark(t, 'E', call);
	for (int i = 0; i < count; i++)
		if (!t->excluded[call] &&
		    !((t->recipe.late || t->recipe.shared) && chance(t, 30)))
			release(t, own[i], false);
	mark(t, 'D', call);
	if (t->recipe.late || t->recipe.shared)
		release_some(t, 10);
	work(t);
}

static void recompute(struct trace *t, int call, int *copies, int *count)
{
	*count = 0;
	mark(t, 'B', call);
	work(t);
	for (int id = 0, ids = t->id_count; id < ids; id++)
		for (int s = 0; s < t->ids[id].saver_count; s++)
			if (t->ids[id].savers[s] == call)
				copies[(*count)++] = allocate(t, 'c',
							      t->ids[id].bytes);
	if (t->recipe.tight && chance(t, 30))
		release(t, allocate(t, '+', 3 * some_bytes(t)), false);
	mark(t, 'R', call);
}

/* Backward needs the saved tensors of a call. */
static void use(struct trace *t, int call)
{
	int copies[IDS_MAX], count = 0;

	recompute(t, call, copies, &count);
	work(t);
	if (chance(t, 40))
		allocate(t, '+', some_bytes(t)); /* a gradient */
	for (int i = 0; i < count; i++)
		release(t, copies[i], false);
	if (t->recipe.late || t->recipe.shared)
		release_some(t, 20);
	work(t);
}

static void backward(struct trace *t, int call)
{
	if (t->excluded[call])
		return;
	use(t, call);
	t->done[t->done_count++] = call;
	/* Once more, this one or one of long ago. */
	if (t->recipe.again && chance(t, 40))
		use(t, t->done[draw(&t->seed, (uint64_t)t->done_count)]);
}

/* Which of the open calls has its backward next. */
static int choose_open(struct trace *t, int open)
{
	if (t->recipe.shape == SHAPE_CROSSING)
		return (int)draw(&t->seed, (uint64_t)open);
	return open - 1;
}

/* Is it time for another forward, while some calls are open? */
static bool forward_next(struct trace *t, bool falling)
{
	switch (t->recipe.shape) {
	case SHAPE_CHAIN:
		return true;
	case SHAPE_SIBLINGS:
		return !falling && !chance(t, 25);
	default:
		return chance(t, 60);
	}
}

static void run_calls(struct trace *t)
{
	int open[CALLS_MAX], count = 0, next = 0;
	bool falling = false;

	while (next < t->recipe.calls || count) {
		if (next < t->recipe.calls &&
		    (!count || forward_next(t, falling))) {
			falling = false;
			open[count++] = next;
			forward(t, next++);
			continue;
		}
		int at = choose_open(t, count), call = open[at];

		falling = true;
		memmove(open + at, open + at + 1,
			(size_t)(--count - at) * sizeof(*open));
		if (t->recipe.shape != SHAPE_CROSSING || !chance(t, 10))
			backward(t, call);
	}
}

static void set_times(struct trace *t)
{
	int64_t saved[CALLS_MAX] = { 0 };

	for (int id = 0; id < t->id_count; id++)
		for (int s = 0; s < t->ids[id].saver_count; s++)
			saved[t->ids[id].savers[s]] += t->ids[id].bytes;
	for (int i = 0; i < t->recipe.calls; i++) {
		t->ms[i] = (double)draw(&t->seed, t->recipe.tight ? 5 : 1000);
		if (t->recipe.proportional)
			t->ms[i] = (double)saved[i] * 1e-3 *
				   (1 + 0.0002 * (double)draw(&t->seed, 100));
	}
}

struct trace *trace_make(const struct recipe *recipe, uint64_t seed)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->recipe = *recipe;
	t->seed = seed;
	for (int i = 0; i < recipe->calls; i++)
		t->excluded[i] = recipe->excluded && chance(t, 20);
	allocate(t, '+', some_bytes(t)); /* parameters */
	mark(t, 'S', -1);
	run_calls(t);
	release_some(t, 50);
	mark(t, 'Z', -1);
	work(t);
	set_times(t);
	return t;
}

void trace_free(struct trace *trace)
{
	free(trace);
}

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

/* Live bytes over the trace, everything dropped: the segments. */
static void fill_segments(const struct trace *t, struct tape *tape,
			  int32_t *freed)
{
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
		live += event->kind == '-' ? -t->ids[event->id].bytes :
					     t->ids[event->id].bytes;
		if (event->kind == '-')
			freed[event->id] = (int32_t)tape->segment_count - 1;
		else if (tape->segment_count && live > last->peak)
			last->peak = live;
	}
}

struct tape trace_tape(const struct trace *t)
{
	struct tape tape = { .call_count = (size_t)t->recipe.calls };
	struct why why = { NULL, 0 };
	int32_t freed[IDS_MAX];

	memset(freed, -1, sizeof(freed));
	tape.root = strdup("Model");
	tape.key = strdup("Model(float32)");
	tape.fingerprint = strdup("0123456789abcdef");
	tape.calls = calloc(tape.call_count + 1, sizeof(*tape.calls));
	tape.storages = calloc(IDS_MAX, sizeof(*tape.storages));
	tape.segments = calloc(EVENTS_MAX, sizeof(*tape.segments));
	tape.savers = calloc((size_t)IDS_MAX * CALLS_MAX, sizeof(*tape.savers));
	fill_calls(t, &tape);
	fill_segments(t, &tape, freed);
	fill_storages(t, &tape, freed);
	if (tape_index(&tape, "", &why) < 0)
		abort();
	return tape;
}

/* A replay with some calls kept. */
struct replay {
	const struct trace *trace;
	const bool *keep;
	int64_t live, peak;
	bool gone[IDS_MAX];    /* everything but kept frames let it go */
	bool counted[IDS_MAX]; /* it is in live */
	bool holds[CALLS_MAX]; /* the call's frame holds its storages */
};

static bool frame_holds(const struct replay *r, int id)
{
	const struct memory *m = &r->trace->ids[id];

	for (int s = 0; s < m->saver_count; s++)
		if (r->holds[m->savers[s]])
			return true;
	return false;
}

static void replay_free(struct replay *r, int id)
{
	if (r->gone[id] && r->counted[id] && !frame_holds(r, id)) {
		r->counted[id] = false;
		r->live -= r->trace->ids[id].bytes;
	}
}

static void replay_allocate(struct replay *r, int id)
{
	r->counted[id] = true;
	r->live += r->trace->ids[id].bytes;
	if (r->live > r->peak)
		r->peak = r->live;
}

/* A kept frame lets go; what it held becomes what backward uses. */
static void replay_backward(struct replay *r, int call)
{
	r->holds[call] = false;
	for (int id = 0; id < r->trace->id_count; id++)
		replay_free(r, id);
}

int64_t trace_replay(const struct trace *trace, const bool *keep)
{
	struct replay *r = calloc(1, sizeof(*r));
	int skipping = -1;
	int64_t peak;

	if (!r)
		abort();
	r->trace = trace;
	r->keep = keep;
	for (int e = 0; e < trace->event_count; e++) {
		const struct event *event = &trace->events[e];
		bool kept = event->call >= 0 && keep[event->call] &&
			    !trace->excluded[event->call];

		if (event->kind == 'S')
			r->peak = r->live;
		if (kept && event->kind == 'E')
			r->holds[event->call] = true;
		if (kept && event->kind == 'B') {
			replay_backward(r, event->call);
			skipping = event->call;
		}
		if (event->kind == 'R')
			skipping = -1;
		if (event->kind == 'c' || (event->kind == '+' && skipping < 0))
			replay_allocate(r, event->id);
		if (event->kind == '-') {
			r->gone[event->id] = true;
			replay_free(r, event->id);
		}
	}
	peak = r->peak;
	free(r);
	return peak;
}
