#include "front.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prices.h"

/*
 * One point of a front: as long as the ancestors hold at most `room` bytes,
 * `value` can be reached. In the front of a node, `left` is the point of the
 * front below it and `right` whether the call is kept; in a sum of two fronts
 * they are the points of the two.
 */
struct point {
	int64_t room;
	double value;
	int32_t left, right;
};

/* Rooms fall and values rise along a front. */
struct front {
	size_t start, count; /* among the points */
	int32_t node;	     /* -1: a sum */
	int32_t left, right; /* fronts it was made from, -1: none */
	double price, part;  /* of what it covers, see prices.h */
};

struct solver {
	const struct nest_node *nodes;
	size_t first, last;   /* the subtree to solve */
	struct price *prices; /* from first */
	double ceiling;	      /* bound on the whole subtree */

	struct point *points;
	size_t point_count, point_room;
	struct front *fronts;
	size_t front_count;
	int32_t *stack; /* fronts not yet below a node */
	double *bounds;
	size_t bound_room;

	size_t cap;
	double best; /* the best value known, -INFINITY: none */
	double lost; /* the best bound that thinning lost */
	bool *keep;
};

static double bound_of(const struct solver *s, const struct front *front,
		       const struct point *point)
{
	/* Without a price the room may be NEST_ANY, but its worth is 0. */
	return point->value + front->price * (double)point->room +
	       (s->ceiling - front->part);
}

static int reserve(struct solver *s, size_t more)
{
	size_t room = s->point_count + more;
	struct point *grown;

	if (room <= s->point_room)
		return 0;
	if (room < 2 * s->point_room)
		room = 2 * s->point_room;
	grown = realloc(s->points, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->points = grown;
	s->point_room = room;
	return 0;
}

/* The front's next point; one of no more value than the last, or hopeless. */
static void push(struct solver *s, struct front *front, struct point point)
{
	struct point *last = s->points + s->point_count - 1;

	if (front->count && point.value <= last->value)
		return;
	if (bound_of(s, front, &point) <= s->best)
		return;
	s->points[s->point_count++] = point;
	front->count++;
}

/* Move the `want` largest to the front of the array. */
static void select_largest(double *a, size_t count, size_t want)
{
	size_t low = 0, high = count - 1;

	while (low < high) {
		double pivot = a[(low + high) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (a[i] > pivot)
				i++;
			while (a[j] < pivot)
				j--;
			if (i >= j)
				break;
			double swap = a[i];
			a[i++] = a[j];
			a[j--] = swap;
		}
		if (want <= j + 1)
			high = j;
		else
			low = j + 1;
	}
}

/*
 * Keep the points with the highest bounds, and the first one, which has the
 * most room: with it a plan that holds is never lost.
 */
static void keep_best(struct solver *s, struct front *front, double least)
{
	struct point *points = s->points + front->start;
	size_t kept = 1;

	for (size_t i = 1; i < front->count; i++) {
		double bound = bound_of(s, front, &points[i]);

		if (bound >= least && kept < s->cap)
			points[kept++] = points[i];
		else if (bound > s->lost)
			s->lost = bound;
	}
	s->point_count -= front->count - kept;
	front->count = kept;
}

static int thin(struct solver *s, struct front *front)
{
	if (front->count <= s->cap)
		return 0;
	if (front->count > s->bound_room) {
		free(s->bounds);
		s->bound_room = 2 * front->count;
		s->bounds = malloc(s->bound_room * sizeof(double));
		if (!s->bounds)
			return -ENOMEM;
	}
	for (size_t i = 0; i < front->count; i++)
		s->bounds[i] = bound_of(s, front, s->points + front->start + i);
	select_largest(s->bounds, front->count, s->cap);
	double least = s->bounds[0];
	for (size_t i = 1; i < s->cap; i++)
		least = fmin(least, s->bounds[i]);
	keep_best(s, front, least);
	return 0;
}

static struct front *open_front(struct solver *s, int32_t node, int32_t left,
				int32_t right)
{
	struct front *front = &s->fronts[s->front_count++];

	*front = (struct front){ .start = s->point_count,
				 .node = node,
				 .left = left,
				 .right = right };
	return front;
}

/* Both fronts under the same ancestors: at each room, the sum of the two. */
static int add_fronts(struct solver *s, int32_t left, int32_t right)
{
	struct front *front = open_front(s, -1, left, right);
	struct front a = s->fronts[left], b = s->fronts[right];
	size_t i = 0, j = 0;

	front->price = a.price + b.price;
	front->part = a.part + b.part;
	if (!a.count || !b.count)
		return 0;
	if (reserve(s, a.count + b.count) < 0)
		return -ENOMEM;
	const struct point *x = s->points + a.start, *y = s->points + b.start;
	int64_t room = x[0].room < y[0].room ? x[0].room : y[0].room;
	for (;;) {
		while (i + 1 < a.count && x[i + 1].room >= room)
			i++;
		while (j + 1 < b.count && y[j + 1].room >= room)
			j++;
		push(s, front,
		     (struct point){ room, x[i].value + y[j].value, (int32_t)i,
				     (int32_t)j });
		room = -1;
		if (i + 1 < a.count)
			room = x[i + 1].room;
		if (j + 1 < b.count && y[j + 1].room > room)
			room = y[j + 1].room;
		if (room < 0)
			return thin(s, front);
	}
}

/* One of the two ways to extend the front below a node by its call. */
struct way {
	const struct point *points;
	size_t next, count;
	int64_t limit; /* on the room of the points below */
	int64_t cost;
	double value;
	int32_t kept;
};

/* Of the points with room beyond the limit the last is the best. */
static void way_start(struct way *way)
{
	if (way->limit < 0)
		way->next = way->count;
	while (way->next + 1 < way->count &&
	       way->points[way->next + 1].room >= way->limit)
		way->next++;
}

static struct point way_point(const struct way *way)
{
	struct point none = { -1, 0, 0, 0 };
	int64_t room;

	if (way->next >= way->count)
		return none;
	room = way->points[way->next].room;
	if (room > way->limit)
		room = way->limit;
	return (struct point){ room - way->cost,
			       way->points[way->next].value + way->value,
			       (int32_t)way->next, way->kept };
}

/* Merge the points with and without the call by falling room. */
static void merge_ways(struct solver *s, struct front *front, struct way *kept,
		       struct way *dropped)
{
	way_start(kept);
	way_start(dropped);
	for (;;) {
		struct point k = way_point(kept), d = way_point(dropped);

		if (k.room < 0 && d.room < 0)
			return;
		if (k.room > d.room ||
		    (k.room == d.room && k.value >= d.value)) {
			push(s, front, k);
			kept->next++;
		} else {
			push(s, front, d);
			dropped->next++;
		}
	}
}

/* The front of a node from the one below it (-1: it has no children). */
static int extend_front(struct solver *s, size_t n, int32_t below)
{
	static const struct point nothing = { NEST_ANY, 0, -1, 0 };
	const struct nest_node *node = &s->nodes[n];
	struct front *front = open_front(s, (int32_t)n, below, -1);
	size_t count = below < 0 ? 1 : s->fronts[below].count;
	int64_t drop_limit = node->drop_room < node->room ? node->drop_room :
							    node->room;

	front->price = s->prices[n - s->first].price;
	front->part = s->prices[n - s->first].part;
	if (reserve(s, 2 * count) < 0)
		return -ENOMEM;
	const struct point *points = below < 0 ?
					     &nothing :
					     s->points + s->fronts[below].start;
	struct way kept = { points,	0,	     count, node->room,
			    node->cost, node->value, 1 };
	struct way dropped = { points, 0, count, drop_limit, 0, 0, 0 };
	merge_ways(s, front, &kept, &dropped);
	return thin(s, front);
}

/* Build every front, children before their node. */
static int build_fronts(struct solver *s)
{
	size_t depth = 0;

	s->point_count = s->front_count = 0;
	for (size_t n = s->first; n <= s->last; n++) {
		int32_t below = -1;

		for (int32_t c = 0; c < s->nodes[n].children; c++) {
			int32_t child = s->stack[--depth];

			if (below >= 0 && add_fronts(s, child, below) < 0)
				return -ENOMEM;
			below = below < 0 ? child : (int32_t)s->front_count - 1;
		}
		if (extend_front(s, n, below) < 0)
			return -ENOMEM;
		s->stack[depth++] = (int32_t)s->front_count - 1;
	}
	return 0;
}

/*
 * Follow the last point of the outermost front back to the calls. A front's
 * own place on the walk is kept in its `start` (no longer needed as such).
 */
static void trace(struct solver *s)
{
	size_t top = s->front_count - 1;

	s->fronts[top].start += s->fronts[top].count - 1;
	for (size_t f = top + 1; f-- > 0;) {
		const struct front *front = &s->fronts[f];
		const struct point *point = &s->points[front->start];

		if (front->left >= 0)
			s->fronts[front->left].start += (size_t)point->left;
		if (front->node >= 0)
			s->keep[s->nodes[front->node].call] = point->right;
		else
			s->fronts[front->right].start += (size_t)point->right;
	}
}

/*
 * One pass at one cap; better plans go to keep, the bound only falls. (What
 * the outermost front leaves as room was worth something to its bounds, but
 * is worth nothing in the end.)
 */
static int pass(struct solver *s, size_t cap, double *bound)
{
	const struct front *top;
	double reached, value = -INFINITY;

	s->cap = cap;
	s->lost = -INFINITY;
	if (build_fronts(s) < 0)
		return -ENOMEM;
	top = &s->fronts[s->front_count - 1];
	if (top->count)
		value = s->points[top->start + top->count - 1].value;
	if (value > s->best) {
		s->best = value;
		trace(s);
	}
	reached = fmax(s->best, s->lost);
	if (reached < *bound)
		*bound = reached;
	return 0;
}

/*
 * Narrow passes first: they are quick, and the plan they find prunes the wide
 * ones. The last is as wide as the work allows.
 */
static int solve_subtree(struct solver *s, size_t points,
			 struct front_answer *answer)
{
	static const size_t caps[] = { 64, 512, FRONT_MAX };
	size_t count = s->last - s->first + 1;
	size_t widest = count <= FRONT_SHORT ? FRONT_MAX : points / count;
	double bound;

	if (prices_find(s->nodes, s->first, s->last, s->prices) < 0)
		return -ENOMEM;
	s->ceiling = s->prices[count - 1].part;
	s->best = -INFINITY;
	bound = s->ceiling * (1 + 1e-12);
	widest = widest < 16 ? 16 : widest;
	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++) {
		if (pass(s, caps[i] < widest ? caps[i] : widest, &bound) < 0)
			return -ENOMEM;
		if (s->best == -INFINITY)
			return -ENOSPC;
		if (s->lost <= s->best || caps[i] >= widest)
			break;
	}
	answer->value += s->best;
	answer->bound += bound > s->best ? bound : s->best;
	return 0;
}

static int solve_all(struct solver *s, const struct nest *nest, size_t points,
		     struct front_answer *answer)
{
	int error = 0;

	for (size_t n = 0; n < nest->count && !error; n++) {
		if (nest->nodes[n].parent >= 0)
			continue;
		s->first = (size_t)nest->nodes[n].first;
		s->last = n;
		error = solve_subtree(s, points, answer);
	}
	return error;
}

int front_solve(const struct nest *nest, size_t points, bool *keep,
		struct front_answer *answer)
{
	size_t count = nest->count + 1;
	struct solver s = { .nodes = nest->nodes, .keep = keep };
	int error = -ENOMEM;

	*answer = (struct front_answer){ 0, 0 };
	s.prices = malloc(count * sizeof(*s.prices));
	s.fronts = malloc(2 * count * sizeof(*s.fronts));
	s.stack = malloc(count * sizeof(*s.stack));
	if (s.prices && s.fronts && s.stack)
		error = solve_all(&s, nest, points, answer);
	free(s.prices);
	free(s.fronts);
	free(s.stack);
	free(s.points);
	free(s.bounds);
	return error;
}
