/*
 * The state of the agent in this process.
 *
 *   off      CKPT_DISABLE=1, a set-user-ID program, a process without Python,
 *            a setting that cannot be read, or after standing down: the hooks
 *            only forward
 *   on       events go to the ledger
 *
 * It starts as on (unless disabled), becomes off at most once, and never
 * comes back.
 */
#ifndef CKPTAGENT_AGENT_H
#define CKPTAGENT_AGENT_H

#include <stdbool.h>

bool agent_on(void);

/* Off without a word. */
void agent_leave(void);

/* Off, with one line in the log that says why. */
void agent_stand_down(const char *why);

/*
 * Once per process, at the first event of a Python process: prints the
 * settings' messages and puts the budget's share in bytes. False: a setting
 * was refused and the agent is off.
 */
bool agent_prepare(void);

/* See ckptagent_setting() in shim_abi.h. */
const char *agent_setting(const char *name);

#endif
