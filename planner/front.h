/*
 * The exact knapsack on a nest: bottom up, for each node the front of (bytes
 * that its ancestors may hold, best value of its subtree), a front point each
 * time more value needs less room. Points that cannot beat the best plan known
 * are pruned by the bound of prices.h; fronts above a cap are thinned to the
 * points with the highest bounds, and then the best bound that was lost says
 * how far from the optimum the answer can be. Bytes are never rounded.
 */
#ifndef CKPTPLAN_FRONT_H
#define CKPTPLAN_FRONT_H

#include "nest.h"

/*
 * The longest front, and all points together (24 bytes each) of a nest of more
 * than FRONT_SHORT nodes. Fronts of up to 17 calls are never thinned.
 */
#define FRONT_MAX 65536
#define FRONT_SHORT 24
#define FRONT_POINTS 400000

struct front_answer {
	double value; /* of the plan found */
	double bound; /* no plan of the nest is worth more */
};

/*
 * Solve; keep[call] is set for each call of the nest. `points` bounds the work
 * (FRONT_POINTS, or less for a rough answer). Returns 0, -ENOMEM, or -ENOSPC
 * when no plan holds in the nest (keep is then unspecified).
 */
int front_solve(const struct nest *nest, size_t points, bool *keep,
		struct front_answer *answer);

#endif
