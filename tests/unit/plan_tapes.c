#include "plan_tapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 32
#define IDS_MAX 4096
#define EVENTS_MAX 16384

/*
 * Capital letters are marks; '+' and '-' allocate and free; 'c' allocates what
 * a recompute hands to the backward, which a kept call has already. An input
 * is freed when all but notes have let it go ('o') and each note has ('u' and
 * its call); 'w': it is seen that only notes hold it.
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
	bool input, noters[CALLS_MAX];
};

/* Where an input stands. */
struct input {
	bool others_gone, gone[CALLS_MAX], freed, unseen;
};

struct trace {
	struct recipe recipe;
	uint64_t seed;
	struct event events[EVENTS_MAX];
	int event_count;
	struct memory ids[IDS_MAX];
	struct input inputs[IDS_MAX]; /* while it is made, all dropped */
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

/* Does a note of the calls that are not kept (NULL: of any) hold it? */
static bool notes_hold(const struct memory *m, const struct input *now,
		       const bool *keep)
{
	for (int i = 0; i < CALLS_MAX; i++)
		if (m->noters[i] && !now->gone[i] && !(keep && keep[i]))
			return true;
	return false;
}

/* Whether an input's event frees it. */
static bool frees_input(const struct memory *m, struct input *now,
			const struct event *event, const bool *keep)
{
	if (event->kind == 'o')
		now->others_gone = true;
	else if (event->kind == 'u')
		now->gone[event->call] = true;
	else
		return false;
	if (now->freed || !now->others_gone || notes_hold(m, now, keep))
		return false;
	now->freed = true;
	return true;
}

static void let_input_go(struct trace *t, char kind, int call, int id)
{
	add(t, kind, call, id);
	if (frees_input(&t->ids[id], &t->inputs[id],
			&t->events[t->event_count - 1], NULL)) {
		t->ids[id].freed = true;
		t->late_freed = true;
	}
}

/* What a call is about to be given: something new, and of the older. */
static void note_inputs(struct trace *t, int call)
{
	int id = allocate(t, '+', 1 + some_bytes(t) / 4);

	t->ids[id].input = t->ids[id].noters[call] = true;
	for (int other = 0; !t->recipe.sharp && other < id; other++)
		if (t->ids[other].input && !t->inputs[other].others_gone &&
		    chance(t, 50))
			t->ids[other].noters[call] = true;
}

/* All but notes let some inputs go, which is seen at once or later. */
static void let_some_go(struct trace *t, int percent)
{
	for (int id = 0; id < t->id_count; id++) {
		struct input *now = &t->inputs[id];

		if (!t->ids[id].input || now->others_gone ||
		    !chance(t, percent))
			continue;
		let_input_go(t, 'o', -1, id);
		now->unseen = !now->freed;
		if (now->unseen && (t->recipe.sharp || chance(t, 50))) {
			mark(t, 'X', -1);
			add(t, 'w', -1, id);
			now->unseen = false;
		}
	}
}

static void see_inputs(struct trace *t)
{
	for (int id = 0; id < t->id_count; id++) {
		if (t->inputs[id].unseen && !t->inputs[id].freed)
			add(t, 'w', -1, id);
		t->inputs[id].unseen = false;
	}
}

static void forget_note(struct trace *t, int call)
{
	for (int id = 0; id < t->id_count; id++)
		if (t->ids[id].noters[call] && !t->inputs[id].gone[call])
			let_input_go(t, 'u', call, id);
}

static void forward(struct trace *t, int call)
{
	int own[3], count = 1 + (int)draw(&t->seed, 3);

	if (t->recipe.noted && !t->excluded[call])
		note_inputs(t, call);
	mark(t, 'F', call);
	see_inputs(t);
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
	if (t->recipe.noted)
		let_some_go(t, t->recipe.sharp ? 100 : 60);
	if (t->recipe.late || t->recipe.shared)
		release_some(t, 10);
	work(t);
}

static void recompute(struct trace *t, int call, int *copies, int *count)
{
	*count = 0;
	mark(t, 'B', call);
	see_inputs(t);
	work(t);
	for (int id = 0, ids = t->id_count; id < ids; id++)
		for (int s = 0; s < t->ids[id].saver_count; s++)
			if (t->ids[id].savers[s] == call)
				copies[(*count)++] = allocate(t, 'c',
							      t->ids[id].bytes);
	if (t->recipe.tight && chance(t, 30))
		release(t, allocate(t, '+', 3 * some_bytes(t)), false);
	if (t->recipe.sharp && !t->recipe.again)
		forget_note(t, call);
	mark(t, 'R', call);
}

/* Backward needs the saved tensors of a call. */
static void use(struct trace *t, int call)
{
	int copies[IDS_MAX], count = 0;

	recompute(t, call, copies, &count);
	if (t->recipe.noted && !t->recipe.again && chance(t, 50))
		forget_note(t, call);
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
	for (int i = 0; recipe->noted && i < recipe->calls; i++)
		if (chance(t, 70))
			forget_note(t, i);
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
	if (!frees_input(&t->ids[event->id], now, event, NULL))
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

/* A replay with some calls kept. */
struct replay {
	const struct trace *trace;
	const bool *keep;
	int64_t live, peak;
	bool gone[IDS_MAX];    /* everything but kept frames let it go */
	bool counted[IDS_MAX]; /* it is in live */
	bool holds[CALLS_MAX]; /* the call's frame holds its storages */
	struct input inputs[IDS_MAX];
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
		if (event->kind == '-' ||
		    (event->id >= 0 && frees_input(&trace->ids[event->id],
						   &r->inputs[event->id], event,
						   keep))) {
			r->gone[event->id] = true;
			replay_free(r, event->id);
		}
	}
	peak = r->peak;
	free(r);
	return peak;
}
