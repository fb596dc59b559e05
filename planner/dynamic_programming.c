/*
 * dynamic_programming: the cheapest recompute time whose saved bytes reach S,
 * with bytes in buckets of 1 MiB, each call's rounded to the nearest. A set
 * whose true bytes miss S by that rounding is repaired upward: further calls
 * in the order of the greedy planner.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "by_saving.h"

#define BUCKET (INT64_C(1) << 20)
#define CELLS_MAX 5000000

struct table {
	const struct tape *tape;
	struct saving_rank *order; /* the droppable calls */
	size_t count;
	int64_t buckets;      /* of all of them together */
	double *cheapest;     /* [w]: the least time that reaches w buckets */
	unsigned char *taken; /* [i * (buckets + 1) + w]: i is in that set */
};

static int64_t weight(const struct saving_rank *rank)
{
	return (rank->saved + BUCKET / 2) / BUCKET;
}

static void fill_row(struct table *t, size_t i)
{
	unsigned char *taken = t->taken + i * (size_t)(t->buckets + 1);
	int64_t own = weight(&t->order[i]);

	for (int64_t w = t->buckets; w > 0; w--) {
		double with = t->cheapest[w > own ? w - own : 0] +
			      t->order[i].cost;

		taken[w] = with < t->cheapest[w];
		if (taken[w])
			t->cheapest[w] = with;
	}
}

static void fill(struct table *t)
{
	t->cheapest[0] = 0;
	for (int64_t w = 1; w <= t->buckets; w++)
		t->cheapest[w] = INFINITY;
	for (size_t i = 0; i < t->count; i++)
		fill_row(t, i);
}

/* The cheapest set that reaches w buckets; returns its true bytes. */
static int64_t take(const struct table *t, int64_t w, bool *keep)
{
	int64_t saved = 0;

	memset(keep, true, t->tape->call_count);
	for (size_t i = t->count; i-- > 0;) {
		if (!t->taken[i * (size_t)(t->buckets + 1) + (size_t)w])
			continue;
		keep[t->order[i].call] = false;
		saved += t->order[i].saved;
		w = w > weight(&t->order[i]) ? w - weight(&t->order[i]) : 0;
	}
	return saved;
}

/*
 * The sets of all S with one number of buckets: (w - 1) buckets < S <= w
 * buckets, and beyond at the last one.
 */
static int visit_bucket(const struct table *t, int64_t w, bool *keep,
			struct by_saving_visitor *visitor)
{
	int64_t saved = take(t, w, keep);
	int64_t least = (w - 1) * BUCKET;
	int status = 0;

	if (saved > least || w == 0)
		status = visitor->visit(visitor, keep, saved);
	for (size_t i = 0; i < t->count && !status; i++) {
		if (saved >= w * BUCKET && w < t->buckets)
			break;
		if (!keep[t->order[i].call])
			continue;
		keep[t->order[i].call] = false;
		saved += t->order[i].saved;
		if (saved > least && t->order[i].saved > 0)
			status = visitor->visit(visitor, keep, saved);
	}
	return status;
}

static int visit_buckets(struct table *t, int64_t from,
			 struct by_saving_visitor *visitor, bool *keep)
{
	int64_t w = from / BUCKET + (from % BUCKET != 0);
	int status = 0;

	fill(t);
	if (w > t->buckets)
		w = t->buckets;
	for (; w <= t->buckets && !status; w++)
		status = visit_bucket(t, w, keep, visitor);
	return status;
}

static int dynamic_programming_sets(const struct tape *tape, int64_t from,
				    struct by_saving_visitor *visitor,
				    const struct why *why)
{
	size_t calls = tape->call_count + 1, cells;
	struct table t = { .tape = tape,
			   .order = malloc(calls * sizeof(*t.order)) };
	bool *keep = malloc(calls);
	int status = -1;

	if (!t.order || !keep)
		goto no_memory;
	t.count = by_saving_rank(tape, t.order);
	for (size_t i = 0; i < t.count; i++)
		t.buckets += weight(&t.order[i]);
	if (t.buckets >= CELLS_MAX ||
	    t.count * (size_t)(t.buckets + 1) > CELLS_MAX) {
		status = why_refuse(why,
				    "dynamic_programming: %zu calls by %lld "
				    "MiB are more than %d cells",
				    t.count, (long long)t.buckets, CELLS_MAX);
		goto out;
	}
	cells = (t.count + 1) * (size_t)(t.buckets + 1);
	t.cheapest = malloc((size_t)(t.buckets + 1) * sizeof(double));
	t.taken = calloc(cells, 1);
	if (t.cheapest && t.taken) {
		status = visit_buckets(&t, from, visitor, keep);
		goto out;
	}
no_memory:
	status = why_memory(why);
out:
	free(t.order);
	free(t.cheapest);
	free(t.taken);
	free(keep);
	return status;
}

int dynamic_programming_choose(const struct goal *goal, bool *keep,
			       const struct why *why)
{
	return by_saving_choose(dynamic_programming_sets, goal, keep, why);
}
