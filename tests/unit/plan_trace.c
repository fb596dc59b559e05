#include "plan_trace.h"

#include <stdlib.h>
#include <string.h>

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

bool trace_frees_input(const struct memory *m, struct input *now,
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
	if (trace_frees_input(&t->ids[id], &t->inputs[id],
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
		    (event->id >= 0 &&
		     trace_frees_input(&trace->ids[event->id],
				       &r->inputs[event->id], event, keep))) {
			r->gone[event->id] = true;
			replay_free(r, event->id);
		}
	}
	peak = r->peak;
	free(r);
	return peak;
}
