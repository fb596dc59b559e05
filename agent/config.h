/*
 * The settings: every CKPT_ variable, read once, in one table (config.c).
 *
 * A value that cannot be read is not an error of the job: it leaves a message
 * and the agent stays out. Nothing is printed here, because the library is
 * loaded into every child of the job and only a process that trains should
 * speak. An empty value is the same as an unset variable.
 */
#ifndef CKPTAGENT_CONFIG_H
#define CKPTAGENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"
#include "units.h"

/* Longer values are refused. */
#define CONFIG_VALUE_BYTES 4096
#define CONFIG_MESSAGE_BYTES 512

enum config_setting {
	CONFIG_BUDGET,
	CONFIG_BLOCKS,
	CONFIG_PLANNER,
	CONFIG_PLAN,
	CONFIG_ON_INFEASIBLE,
	CONFIG_PROOF,
	CONFIG_ON_MISMATCH,
	CONFIG_SPILL,
	CONFIG_OUT,
	CONFIG_TIMING,
	CONFIG_CACHE,
	CONFIG_TENSORBOARD,
	CONFIG_LOG,
	CONFIG_DISABLE,
	CONFIG_REHEARSE, /* the last: ckptagent rehearse sets it, run has no flag */
	CONFIG_SETTINGS
};

struct config {
	/*
	 * Canonical text: as given or the default; "" for an unset path. What
	 * was given stands in `given`, whose pages a process that sets nothing
	 * never touches.
	 */
	const char *value[CONFIG_SETTINGS];
	char given[CONFIG_SETTINGS][CONFIG_VALUE_BYTES];

	/*
	 * A setting's message, or "". If any is a refusal, the agent must
	 * stay out of the job.
	 */
	char message[CONFIG_SETTINGS][CONFIG_MESSAGE_BYTES];
	bool refused;

	bool disabled;		    /* CKPT_DISABLE=1 */
	bool has_budget;	    /* and then: */
	struct units_budget budget; /* what CKPT_BUDGET says */
	enum log_level log_level;
	const char *log_file; /* inside value[CONFIG_LOG], or NULL */
};

/* Fill all of *config from the variables that `get` (as getenv) hands out. */
void config_read(struct config *config, char *(*get)(const char *variable));

/* Put the bytes of a share (such as 70%) in its place, given the whole. */
void config_resolve(struct config *config, uint64_t device_memory);

/* By name ("budget" for CKPT_BUDGET), or NULL. Owned by *config. */
const char *config_value(const struct config *config, const char *name);

#endif
