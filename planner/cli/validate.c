/* ckptagent validate: does a plan fit a profile? */
#include <getopt.h>
#include <stdio.h>

#include "cli.h"
#include "documents.h"

static int fit(const struct cli_command *command, char **paths,
	       const struct plans *plans, const struct profile *profile)
{
	char reason[512] = "";
	struct why why = { reason, sizeof(reason) };

	if (plans_fit(plans, profile, &why) < 0) {
		cli_fault(command, "%s does not fit %s: %s", paths[0], paths[1],
			  reason);
		return CLI_NO;
	}
	printf("%s fits %s: %zu plan%s\n", paths[0], paths[1], plans->count,
	       plans->count == 1 ? "" : "s");
	return CLI_OK;
}

static int validate(const struct cli_command *command, char **paths)
{
	struct plans plans;
	struct profile profile;
	int status = documents_plans(command, paths[0], &plans);

	if (status)
		return status;
	status = documents_profile(command, paths[1], &profile);
	if (!status) {
		status = fit(command, paths, &plans, &profile);
		profile_free(&profile);
	}
	plans_free(&plans);
	return status;
}

int cli_validate(const struct cli_command *command, int argc, char **argv)
{
	static const struct option options[] = { { "help", 0, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option != 'h')
			return cli_misuse(command, "unknown option %s",
					  argv[optind - 1]);
		cli_help(command);
		return CLI_OK;
	}
	if (argc - optind != 2)
		return cli_misuse(command, "needs a plan and a profile");
	return validate(command, argv + optind);
}
