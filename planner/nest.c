#include "nest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "noted.h"

/* A droppable call while the nest is built. */
struct life {
	int32_t call;
	int32_t from, to; /* nested lifetime: from <= k < to */
	int32_t parent;	  /* index among the lives, -1: none */
	int32_t node;	  /* its place in the nest */
	int64_t cost;
	int64_t credit; /* what its note holds, and it does not when kept */
	int32_t quiet;	/* see quiet_until, -1: not yet looked for */
};

struct builder {
	const struct nest_request *request;
	const struct tape *tape;
	struct nest *nest;
	size_t count;
	struct life *lives;
	int32_t *life_of; /* per call: index among the lives, -1: none */
	int32_t *stack;
	int32_t *innermost; /* per segment: index among the lives, -1 */
	int64_t *highest;   /* per life, and one for none: peak inside */
	size_t closed;	    /* nodes placed so far */
};

/* Later ends first, so that a stack walks the lifetimes from the outside. */
static int by_end(const void *a, const void *b)
{
	const struct life *x = a, *y = b;

	if (x->to != y->to)
		return x->to > y->to ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->call < y->call ? -1 : 1;
}

static void collect_lives(struct builder *b)
{
	const struct tape *tape = b->tape;

	for (size_t i = 0; i < tape->call_count; i++) {
		const struct tape_call *call = &tape->calls[i];
		struct life *life = &b->lives[b->count];

		b->life_of[i] = -1;
		if (!call->dropped)
			continue;
		*life = (struct life){ (int32_t)i, call->from, call->to,
				       -1,	   -1,	       0,
				       0,	   -1 };
		if (b->request->view == NEST_RELAXED &&
		    life->from <= b->request->after)
			life->from = b->request->after + 1;
		if (life->from > life->to)
			life->from = life->to;
		b->count++;
	}
	qsort(b->lives, b->count, sizeof(*b->lives), by_end);
	for (size_t i = 0; i < b->count; i++)
		b->life_of[b->lives[i].call] = (int32_t)i;
}

/*
 * Make the lifetimes nest: where two cross, the one that ends later starts as
 * early as the other (safe), or the other starts as late (relaxed). Ends stay
 * where they are, so a recompute stays next to its lifetime.
 */
static void nest_lives(struct builder *b)
{
	size_t depth = 0;

	for (size_t i = 0; i < b->count; i++) {
		struct life *life = &b->lives[i];

		if (life->from == life->to)
			continue;
		while (depth && b->lives[b->stack[depth - 1]].from >= life->to)
			depth--;
		for (size_t d = depth; d > 0; d--) {
			struct life *outer = &b->lives[b->stack[d - 1]];

			if (outer->from <= life->from)
				break;
			b->nest->exact = false;
			if (b->request->view == NEST_SAFE)
				outer->from = life->from;
			else
				life->from = outer->from;
		}
		b->stack[depth++] = (int32_t)i;
	}
}

/* The cost of one storage, given to its calls (safe) or to one (relaxed). */
static void add_cost(struct builder *b, const struct tape_storage *storage)
{
	const struct tape *tape = b->tape;
	int payers = 0;

	for (uint32_t s = 0; s < storage->count; s++) {
		int32_t i = tape->savers[storage->first + s];
		const struct tape_call *call = &tape->calls[i];
		struct life *life = &b->lives[b->life_of[i]];
		int32_t from = tape_cost_from(storage, call,
					      tape->segment_count);

		if (from >= call->to || !storage->bytes)
			continue;
		if (from > call->from || ++payers > 1)
			b->nest->exact = false;
		if (b->request->view == NEST_SAFE) {
			life->cost += storage->bytes;
		} else if (from <= life->from && life->from < life->to) {
			life->cost += storage->bytes;
			return;
		}
	}
}

/*
 * The first segment after a call's drop where its bytes matter: until then the
 * tape stays so far below what there was just before the drop, and no other
 * call has begun to live. What its note holds meanwhile needs no room.
 */
static int32_t quiet_until(const struct tape *tape, struct life *life)
{
	int32_t first = tape->calls[life->call].from;
	const struct tape_segment *before = &tape->segments[first - 1];
	int64_t room = before->mark == 'E' ? before->peak - life->cost : -1;

	if (life->quiet >= 0)
		return life->quiet;
	life->quiet = first;
	while (life->quiet < (int32_t)tape->segment_count &&
	       tape->segments[life->quiet].mark != 'F' &&
	       tape->segments[life->quiet].peak <= room)
		life->quiet++;
	return life->quiet;
}

/*
 * What a note alone holds is no cost of a call that is kept. Safe: where that
 * is the call's own all its life. Relaxed: of the call that holds it longest,
 * without which it is never gone; the call's cost is no less than that.
 */
static void add_noted(struct builder *b, const struct tape_noted *noted)
{
	int32_t call = noted_last(b->tape, noted);
	struct life *life = &b->lives[b->life_of[call]];
	bool own = noted->count == 1 && noted->high >= life->to &&
		   noted->low <= quiet_until(b->tape, life);

	if (noted->low >= noted->high || !noted->bytes)
		return;
	if (!own)
		b->nest->exact = false;
	if ((own || b->request->view == NEST_RELAXED) && life->from < life->to)
		life->credit += noted->bytes;
}

static void add_costs(struct builder *b)
{
	const struct tape *tape = b->tape;

	for (size_t j = 0; j < tape->storage_count; j++)
		add_cost(b, &tape->storages[j]);
	for (size_t j = 0; j < tape->noted_count; j++)
		add_noted(b, &tape->noted[j]);
	for (size_t i = 0; i < b->count; i++)
		b->lives[i].cost -= b->lives[i].credit;
}

static void close_top(struct builder *b, size_t *depth)
{
	struct life *life = &b->lives[b->stack[--*depth]];

	life->node = (int32_t)b->closed;
	b->nest->nodes[b->closed++].call = life->call;
}

/* When a life is opened. */
struct start {
	int32_t from, life;
};

/* A nested life is opened after those that contain it. */
static int by_start(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->life < y->life ? -1 : x->life > y->life;
}

/*
 * Walk the segments, keep the stack of open lives, note the innermost one of
 * every segment and number the nodes as they close. Empty lives come last.
 */
static void place_nodes(struct builder *b, struct start *order)
{
	size_t depth = 0, next = 0;

	for (size_t i = 0; i < b->count; i++)
		order[i] = (struct start){ b->lives[i].from, (int32_t)i };
	qsort(order, b->count, sizeof(*order), by_start);
	for (size_t k = 0; k < b->tape->segment_count; k++) {
		while (depth && b->lives[b->stack[depth - 1]].to <= (int)k)
			close_top(b, &depth);
		for (; next < b->count && order[next].from == (int)k; next++) {
			struct life *life = &b->lives[order[next].life];

			if (life->from == life->to)
				continue;
			life->parent = depth ? b->stack[depth - 1] : -1;
			b->stack[depth++] = order[next].life;
		}
		b->innermost[k] = depth ? b->stack[depth - 1] : -1;
	}
	while (depth)
		close_top(b, &depth);
	for (size_t i = 0; i < b->count; i++) {
		if (b->lives[i].from < b->lives[i].to)
			continue;
		b->stack[depth++] = (int32_t)i;
		close_top(b, &depth);
	}
}

static void fill_nodes(struct builder *b)
{
	struct nest_node *nodes = b->nest->nodes;

	for (size_t n = 0; n < b->count; n++) {
		const struct tape_call *call = &b->tape->calls[nodes[n].call];
		const struct life *life = &b->lives[b->life_of[nodes[n].call]];

		nodes[n].first = (int32_t)n;
		nodes[n].children = 0;
		nodes[n].parent = life->parent < 0 ?
					  -1 :
					  b->lives[life->parent].node;
		nodes[n].cost = life->cost;
		nodes[n].value = call->recompute_ms;
		nodes[n].room = NEST_ANY;
		nodes[n].drop_room = b->request->forced[nodes[n].call] ?
					     NEST_KEEP :
					     NEST_ANY;
	}
	for (size_t n = 0; n < b->count; n++) {
		struct nest_node *parent = &nodes[nodes[n].parent];

		if (nodes[n].parent < 0)
			continue;
		parent->children++;
		if (nodes[n].first < parent->first)
			parent->first = nodes[n].first;
	}
}

static int64_t segment_peak(const struct builder *b, size_t k)
{
	const int64_t *extra = b->request->extra;

	return b->tape->segments[k].peak + (extra ? extra[k] : 0);
}

/* Segments that always happen limit what the lives around them may hold. */
static void limit_rooms(struct builder *b)
{
	for (size_t i = 0; i <= b->count; i++)
		b->highest[i] = -1;
	for (size_t k = (size_t)(b->request->after + 1);
	     k < b->tape->segment_count; k++) {
		int32_t inside = b->innermost[k];
		int64_t *highest =
			&b->highest[inside < 0 ? (int)b->count : inside];

		if (b->tape->segments[k].recomputes < 0 &&
		    segment_peak(b, k) > *highest)
			*highest = segment_peak(b, k);
	}
	for (size_t i = 0; i < b->count; i++)
		if (b->highest[i] >= 0)
			b->nest->nodes[b->lives[i].node].room =
				b->request->budget - b->highest[i];
}

static void limit(int64_t *room, int64_t limit)
{
	if (limit < *room)
		*room = limit < 0 ? NEST_KEEP : limit;
}

/* A recompute that lies elsewhere than beside its call's lifetime. */
static void limit_stray(struct builder *b, int32_t inside, int64_t room)
{
	b->nest->exact = false;
	if (b->request->view == NEST_SAFE && inside >= 0) {
		struct nest_node *node = &b->nest->nodes[b->lives[inside].node];

		if (room < node->room)
			node->room = room;
	}
}

/* Recomputes limit what may be held around them while their call is dropped. */
static void limit_drops(struct builder *b)
{
	for (size_t k = (size_t)(b->request->after + 1);
	     k < b->tape->segment_count; k++) {
		int32_t call = b->tape->segments[k].recomputes;
		int32_t inside = b->innermost[k];
		int64_t room = b->request->budget - segment_peak(b, k);
		const struct life *life;

		if (call < 0 || b->request->forced[call])
			continue;
		if (segment_peak(b, k) <=
		    b->highest[inside < 0 ? (int)b->count : inside])
			continue;
		life = &b->lives[b->life_of[call]];
		if (life->parent == inside && life->from < life->to)
			limit(&b->nest->nodes[life->node].drop_room, room);
		else
			limit_stray(b, inside, room);
	}
}

/* Outermost calls are dropped beside nothing: they fit or must be kept. */
static void settle_outermost(struct builder *b)
{
	for (size_t n = 0; n < b->count; n++) {
		struct nest_node *node = &b->nest->nodes[n];

		if (node->parent < 0 && node->drop_room >= 0)
			node->drop_room = NEST_ANY;
	}
}

static void build(struct builder *b, struct start *order)
{
	collect_lives(b);
	nest_lives(b);
	add_costs(b);
	place_nodes(b, order);
	fill_nodes(b);
	limit_rooms(b);
	limit_drops(b);
	settle_outermost(b);
	b->nest->count = b->count;
}

int nest_build(struct nest *nest, const struct nest_request *request)
{
	const struct tape *tape = request->tape;
	size_t calls = tape->call_count + 1;
	struct builder b = { .request = request, .tape = tape, .nest = nest };
	struct start *order = malloc(calls * sizeof(*order));

	b.lives = malloc(calls * sizeof(*b.lives));
	b.life_of = malloc(calls * sizeof(*b.life_of));
	b.stack = malloc(calls * sizeof(*b.stack));
	b.highest = malloc(calls * sizeof(*b.highest));
	b.innermost = malloc(tape->segment_count * sizeof(*b.innermost));
	nest->nodes = malloc(calls * sizeof(*nest->nodes));
	nest->exact = true;
	nest->count = 0;
	if (order && b.lives && b.life_of && b.stack && b.highest &&
	    b.innermost && nest->nodes)
		build(&b, order);
	else
		nest_free(nest);
	free(order);
	free(b.lives);
	free(b.life_of);
	free(b.stack);
	free(b.highest);
	free(b.innermost);
	return nest->nodes ? 0 : -ENOMEM;
}

void nest_free(struct nest *nest)
{
	free(nest->nodes);
	nest->nodes = NULL;
}
