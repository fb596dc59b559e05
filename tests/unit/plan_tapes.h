/* Random tapes for the planner's tests, measured on traces. */
#ifndef PLAN_TAPES_H
#define PLAN_TAPES_H

#include "plan_trace.h"
#include "tape.h"

/* The tape that the trace leaves with everything dropped; tape_free. */
struct tape trace_tape(const struct trace *trace);

/* Other times for its storages, as a file may say that no job has written. */
void tape_scramble(struct tape *tape, uint64_t *seed);

#endif
