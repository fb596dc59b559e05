/* How far apart the ranks of one job are: their peaks and their plans. */
#ifndef CKPTAGENT_CLI_REPORT_SPREAD_H
#define CKPTAGENT_CLI_REPORT_SPREAD_H

#include <stddef.h>

#include "run_json.h"

/*
 * Print a table of the runs, in their order, and the blocks that only some of
 * them recompute. Nothing for less than two runs. 0 or -ENOMEM.
 */
int report_spread(const struct run *runs, size_t count);

#endif
