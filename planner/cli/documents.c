#include "documents.h"

#include <stdlib.h>

#include "file.h"
#include "tape_json.h"

static char *read_text(const struct cli_command *command, const char *path)
{
	int error;
	char *text = file_read(path, &error);

	if (!text)
		cli_fault(command, "%s: %s", path, file_fault(error));
	return text;
}

/* Say what a reader found, if anything, and free the text. */
static int judge(const struct cli_command *command, const char *path,
		 char *text, int error, const struct why *why)
{
	free(text);
	return error ? cli_fault(command, "%s: %s", path, why->text) : CLI_OK;
}

int documents_profile(const struct cli_command *command, const char *path,
		      struct profile *profile)
{
	char reason[512] = "";
	struct why why = { reason, sizeof(reason) };
	char *text = read_text(command, path);

	if (!text)
		return CLI_USAGE;
	return judge(command, path, text, profile_read(text, profile, &why),
		     &why);
}

int documents_plans(const struct cli_command *command, const char *path,
		    struct plans *plans)
{
	char reason[512] = "";
	struct why why = { reason, sizeof(reason) };
	char *text = read_text(command, path);

	if (!text)
		return CLI_USAGE;
	return judge(command, path, text, plans_read(text, plans, &why), &why);
}

int documents_run(const struct cli_command *command, const char *path,
		  struct run *run)
{
	char reason[512] = "";
	struct why why = { reason, sizeof(reason) };
	char *text = read_text(command, path);

	if (!text)
		return CLI_USAGE;
	return judge(command, path, text, run_read(text, run, &why), &why);
}
