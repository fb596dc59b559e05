/* Who holds the bytes at the peak of one kind of iteration. */
#ifndef CKPTAGENT_CLI_REPORT_PEAK_H
#define CKPTAGENT_CLI_REPORT_PEAK_H

#include "plan_json.h"
#include "run_json.h"
#include "tape.h"

/*
 * Print the peak of a kind under the plan in force: that of `plans` (may be
 * NULL) if it fits the kind, else the decisions of the run. 0 or -ENOMEM.
 */
int report_peak(const struct tape *tape, const struct plans *plans,
		const struct run *run);

#endif
