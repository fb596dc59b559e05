/*
 * What a byte of room is worth at each depth of a nest (the dual prices of the
 * fractional knapsack), and the upper bound that follows: no part of a plan
 * is worth more than
 *
 *     value of the part + price * room it leaves + ceiling of all the rest
 */
#ifndef CKPTPLAN_PRICES_H
#define CKPTPLAN_PRICES_H

#include "nest.h"

struct price {
	double price; /* of a byte held by all ancestors, in value */
	double part;  /* what the subtree's own limits contribute */
};

/*
 * Fill one price for each node of a range that is one node's whole subtree
 * (the outermost last; indices count from `first`). The bound on the whole
 * range is then prices[last].part. 0, or -ENOMEM.
 */
int prices_find(const struct nest_node *nodes, size_t first, size_t last,
		struct price *prices);

#endif
