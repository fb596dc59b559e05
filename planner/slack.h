/*
 * An array of numbers under "add to a range" and "least of a range", each in
 * O(log n): how much room is left at every depth of a nest.
 */
#ifndef CKPTPLAN_SLACK_H
#define CKPTPLAN_SLACK_H

#include <stddef.h>
#include <stdint.h>

struct slack {
	size_t leaves;	       /* a power of two, at least the count */
	double *least, *added; /* by node of the tree, the root is 1 */
};

/* Start from `count` (at least 1) numbers. 0, or -ENOMEM. */
int slack_init(struct slack *slack, const double *numbers, size_t count);
void slack_free(struct slack *slack);

/* Ranges include both ends. */
void slack_add(struct slack *slack, size_t first, size_t last, double by);
double slack_least(const struct slack *slack, size_t first, size_t last,
		   size_t *where);

#endif
