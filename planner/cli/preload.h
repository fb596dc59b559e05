/*
 * Starting a job with the agent in front of what LD_PRELOAD holds already.
 */
#ifndef CKPTAGENT_CLI_PRELOAD_H
#define CKPTAGENT_CLI_PRELOAD_H

#include "cli.h"

/*
 * Set LD_PRELOAD: the agent, then `also` (NULL: nothing), then what was there.
 * CLI_OK, or a status to leave with; what is wrong was said.
 */
int preload(const struct cli_command *command, const char *also);

/* Become the job. Returns only if that fails, with a status to leave with. */
int preload_exec(const struct cli_command *command, char **job);

#endif
