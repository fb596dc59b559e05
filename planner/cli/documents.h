/* Reading the three documents from files, with a message that names both. */
#ifndef CKPTAGENT_CLI_DOCUMENTS_H
#define CKPTAGENT_CLI_DOCUMENTS_H

#include "cli.h"
#include "plan_json.h"
#include "run_json.h"
#include "tape.h"

/* CLI_OK, or CLI_USAGE after saying why; free with the document's own free. */
int documents_profile(const struct cli_command *command, const char *path,
		      struct profile *profile);
int documents_plans(const struct cli_command *command, const char *path,
		    struct plans *plans);
int documents_run(const struct cli_command *command, const char *path,
		  struct run *run);

#endif
