#include "prices.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "slack.h"

/*
 * The fractional knapsack on a chain is solved by greed: take calls by value a
 * byte, each as far as it fits. When a limit is used up at some ratio, that
 * ratio is the price of a byte for every call that counts against it and was
 * not priced before. On a branching nest the prices are no longer the best
 * ones, but any prices that grow towards the outside give a valid bound.
 */
struct greed {
	const struct nest_node *nodes; /* of the range, from 0 */
	size_t first;		       /* what their indices count from */
	size_t count;
	struct price *prices;
	struct slack *slack;
};

/* A node by its value a byte. */
struct rank {
	double ratio;
	size_t node;
};

static int by_ratio(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->ratio != y->ratio)
		return x->ratio > y->ratio ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static bool must_keep(const struct nest_node *node)
{
	return node->drop_room < 0;
}

/* Everything that counts against the limit of a node has its price now. */
static void set_prices(struct greed *g, size_t tight, double ratio)
{
	int32_t n = (int32_t)tight;

	while (n >= 0 && g->prices[n].price < 0) {
		g->prices[n].price = ratio;
		n = g->nodes[n].parent;
		if (n >= 0)
			n -= (int32_t)g->first;
	}
}

static void take(struct greed *g, size_t i)
{
	const struct nest_node *node = &g->nodes[i];
	size_t low = (size_t)node->first - g->first, tight;
	double cost = (double)node->cost;
	double left;

	if (g->prices[i].price >= 0 || must_keep(node) || !node->cost)
		return;
	left = slack_least(g->slack, low, i, &tight);
	if (left > cost) {
		slack_add(g->slack, low, i, -cost);
		return;
	}
	if (left > 0)
		slack_add(g->slack, low, i, -left);
	set_prices(g, tight, node->value / cost);
}

static void take_forced(struct greed *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (must_keep(&g->nodes[i]))
			slack_add(g->slack,
				  (size_t)g->nodes[i].first - g->first, i,
				  -(double)g->nodes[i].cost);
}

/*
 * From prices to the bound. A node's own limit is worth what its price exceeds
 * its children's; a call is worth its value less the price of its bytes.
 */
static void sum_parts(struct greed *g, double *below)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct nest_node *node = &g->nodes[i];
		struct price *p = &g->prices[i];
		double own, gain;

		if (p->price < below[i])
			p->price = below[i];
		own = p->price - below[i];
		if (node->room == NEST_ANY && own > 0) {
			p->price = below[i];
			own = 0;
		}
		gain = node->value - p->price * (double)node->cost;
		if (own > 0)
			p->part += own * (double)node->room;
		if (gain > 0 || must_keep(node))
			p->part += gain;
		if (i + 1 < g->count) {
			size_t parent = (size_t)node->parent - g->first;

			below[parent] += p->price;
			g->prices[parent].part += p->part;
		}
	}
}

static void fill(struct greed *g, struct rank *order, double *rooms)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct nest_node *node = &g->nodes[i];

		order[i].node = i;
		order[i].ratio = node->cost ? node->value / (double)node->cost :
					      INFINITY;
		rooms[i] = node->room == NEST_ANY ? INFINITY :
						    (double)node->room;
		g->prices[i] = (struct price){ -1, 0 };
	}
	qsort(order, g->count, sizeof(*order), by_ratio);
}

static int find(struct greed *g, struct rank *order, double *rooms)
{
	struct slack slack;

	fill(g, order, rooms);
	if (slack_init(&slack, rooms, g->count) < 0)
		return -ENOMEM;
	g->slack = &slack;
	take_forced(g);
	for (size_t i = 0; i < g->count; i++)
		take(g, order[i].node);
	memset(rooms, 0, g->count * sizeof(*rooms));
	sum_parts(g, rooms);
	slack_free(&slack);
	return 0;
}

int prices_find(const struct nest_node *nodes, size_t first, size_t last,
		struct price *prices)
{
	struct greed g = { nodes + first, first, last - first + 1, prices,
			   NULL };
	struct rank *order = malloc(g.count * sizeof(*order));
	double *rooms = malloc(g.count * sizeof(*rooms));
	int error = order && rooms ? find(&g, order, rooms) : -ENOMEM;

	free(order);
	free(rooms);
	return error;
}
