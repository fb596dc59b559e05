#include "slack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int slack_init(struct slack *slack, const double *numbers, size_t count)
{
	slack->leaves = 1;
	while (slack->leaves < count)
		slack->leaves *= 2;
	slack->least = malloc(2 * slack->leaves * sizeof(double));
	slack->added = calloc(2 * slack->leaves, sizeof(double));
	if (!slack->least || !slack->added) {
		slack_free(slack);
		return -ENOMEM;
	}
	for (size_t i = 0; i < slack->leaves; i++)
		slack->least[slack->leaves + i] = i < count ? numbers[i] :
							      INFINITY;
	for (size_t t = slack->leaves - 1; t > 0; t--)
		slack->least[t] = fmin(slack->least[2 * t],
				       slack->least[2 * t + 1]);
	return 0;
}

void slack_free(struct slack *slack)
{
	free(slack->least);
	free(slack->added);
}

/* The part of the array that a node of the tree covers. */
struct cover {
	size_t node, first, last;
};

static struct cover half(struct cover cover, int right)
{
	size_t middle = (cover.first + cover.last) / 2;

	if (right)
		return (struct cover){ 2 * cover.node + 1, middle + 1,
				       cover.last };
	return (struct cover){ 2 * cover.node, cover.first, middle };
}

static struct cover whole(const struct slack *slack)
{
	return (struct cover){ 1, 0, slack->leaves - 1 };
}

static void add(struct slack *slack, struct cover cover, size_t first,
		size_t last, double by)
{
	size_t t = cover.node;

	if (last < cover.first || cover.last < first)
		return;
	if (first <= cover.first && cover.last <= last) {
		slack->least[t] += by;
		slack->added[t] += by;
		return;
	}
	add(slack, half(cover, 0), first, last, by);
	add(slack, half(cover, 1), first, last, by);
	slack->least[t] = fmin(slack->least[2 * t], slack->least[2 * t + 1]) +
			  slack->added[t];
}

void slack_add(struct slack *slack, size_t first, size_t last, double by)
{
	add(slack, whole(slack), first, last, by);
}

static size_t where_least(const struct slack *slack, struct cover cover)
{
	while (cover.node < slack->leaves)
		cover = half(cover, slack->least[2 * cover.node + 1] <
					    slack->least[2 * cover.node]);
	return cover.first;
}

static double least(const struct slack *slack, struct cover cover, size_t first,
		    size_t last, size_t *where)
{
	size_t left_at, right_at;
	double left, right;

	if (last < cover.first || cover.last < first)
		return INFINITY;
	if (first <= cover.first && cover.last <= last) {
		*where = where_least(slack, cover);
		return slack->least[cover.node];
	}
	left = least(slack, half(cover, 0), first, last, &left_at);
	right = least(slack, half(cover, 1), first, last, &right_at);
	if (left == INFINITY && right == INFINITY)
		return INFINITY;
	*where = left <= right ? left_at : right_at;
	return fmin(left, right) + slack->added[cover.node];
}

double slack_least(const struct slack *slack, size_t first, size_t last,
		   size_t *where)
{
	*where = first;
	return least(slack, whole(slack), first, last, where);
}
