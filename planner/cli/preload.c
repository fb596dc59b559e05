#include "preload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "locate.h"

static int check_path(const struct cli_command *command, const char *path)
{
	if (!strpbrk(path, " :"))
		return CLI_OK;
	return cli_fault(command,
			 "%s: LD_PRELOAD cannot name a path with a space or a "
			 "colon",
			 path);
}

/* Each library goes before what is preloaded already, once. */
static int put_before(const struct cli_command *command, const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *value = NULL;
	bool failed;

	if (!before || !*before)
		failed = setenv("LD_PRELOAD", library, 1);
	else if (strstr(before, library))
		failed = false;
	else
		failed = asprintf(&value, "%s:%s", library, before) < 0 ||
			 setenv("LD_PRELOAD", value, 1);
	free(value);
	return failed ? cli_fault(command, "out of memory") : CLI_OK;
}

int preload(const struct cli_command *command, const char *also)
{
	char *agent = locate_library("libckptagent.so");
	int status;

	if (!agent)
		return cli_fault(command, "libckptagent.so is neither beside "
					  "this command nor in its prefix");
	status = check_path(command, agent);
	if (!status && also)
		status = check_path(command, also);
	if (!status && also)
		status = put_before(command, also);
	if (!status)
		status = put_before(command, agent);
	free(agent);
	return status;
}

int preload_exec(const struct cli_command *command, char **job)
{
	int status;

	execvp(job[0], job);
	status = errno == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
	cli_fault(command, "%s: %s", job[0], strerror(errno));
	return status;
}
