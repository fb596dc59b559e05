/* run.PID.json: reading and writing. FORMATS.md draws it. */
#ifndef CKPTPLAN_RUN_JSON_H
#define CKPTPLAN_RUN_JSON_H

#include "plan_json.h"
#include "tape.h"

#define RUN_ENTRIES_MAX 65536 /* kinds, blocks, ranges, events */

enum run_peak {
	RUN_FIRST,
	RUN_LAST,
	RUN_MAX,
	RUN_PREDICTED,
	RUN_PEAK_COUNT
};

/* Bytes that may be unknown (null in the file) are then -1. */
struct run_kind {
	char *root, *key;
	int64_t iterations;
	int64_t peak, predicted, floor;
};

struct run_block {
	char *root, *name, *class_name;
	int64_t call, calls;
	enum plan_decision decision;
	const char *reason; /* of tape_reasons, NULL: none */
	int64_t saved_bytes, boundary_bytes;
	double forward_ms;
	int64_t recomputes;
};

/* Of several CUDA devices, each. */
struct run_device {
	char *name;
	int64_t peaks[RUN_PEAK_COUNT];
	int64_t floor;
};

struct run_event {
	int64_t iteration;
	const char *kind; /* of run_event_kinds */
	char *detail;
};

/* An NVTX range that encloses module calls. */
struct run_range {
	char *name;
	int64_t calls;
	char *block; /* NULL: it names none */
	int64_t peak_bytes, outside_bytes;
};

extern const char *const run_event_kinds[];

struct run {
	int64_t pid, rank;
	char *device, *torch;
	int64_t budget; /* -1: none */
	char *planner;	/* NULL: none */
	int64_t iterations;
	int64_t peaks[RUN_PEAK_COUNT];
	int64_t floor;
	int feasible; /* 1, 0, or -1: nothing was planned */
	bool has_ranges; /* the run looked at ranges */
	size_t kind_count, block_count, range_count, event_count;
	size_t device_count; /* 0: there is one, named above */
	struct run_device *devices;
	struct run_kind *kinds;
	struct run_block *blocks;
	struct run_range *ranges;
	struct run_event *events;
};

/* On success the caller frees with run_free; else nothing is left. */
int run_read(const char *text, struct run *run, const struct why *why);
void run_free(struct run *run);

/* Malloc'ed text (free), NULL without memory. */
char *run_write(const struct run *run);

#endif
