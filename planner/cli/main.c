/* ckptagent: plan, run and report from the command line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct cli_command commands[] = {
	{ "run", "[OPTION]... [--] COMMAND [ARGUMENT]...",
	  "run a job with the agent",
	  "Each option sets the variable of its name (--budget: CKPT_BUDGET) "
	  "for "
	  "the job;\nthe exit status is the job's, 127 when it was not found, "
	  "126 "
	  "when it could not be\nstarted.\n",
	  cli_run },
	{ "rehearse", "[OPTION]... [--] COMMAND [ARGUMENT]...",
	  "try a CUDA job on a device that is not there",
	  "Runs a job on a phantom of a GPU, on a machine that needs none, and "
	  "says what\nmemory it will take, whether it fits and which plan makes "
	  "it fit. The job is ended\nafter a few iterations; no value that it "
	  "computes is real.\n\n"
	  "      --device NAME             the GPU, A100-40G if not said; an "
	  "unknown name lists all\n"
	  "      --count N                 of them, 1 to 16 (1)\n"
	  "      --iterations N            under the plan, before the job is "
	  "ended (3)\n"
	  "      --budget SIZE             hold this (all of the GPU's memory)\n"
	  "      --out DIR                 for the run's files (a new folder)\n"
	  "      --python PATH             whose torch it is, where COMMAND is no "
	  "Python\n"
	  "\nNeeds a torch with CUDA and gcc. Exit status: 0; 1 when the job "
	  "ended too early to\nsay anything; 2 for bad arguments; or the job's.\n",
	  cli_rehearse },
	{ "plan",
	  "PROFILE (--budget SIZE | --activation-budget SIZE | --saving "
	  "FRACTION)",
	  "compare the planners on a profile, and write a plan",
	  "      --budget SIZE             hold the peak under SIZE, e.g. 8G; "
	  "or min\n"
	  "      --activation-budget SIZE  hold the saved bytes under SIZE\n"
	  "      --saving FRACTION         save this fraction of them, 0 to 1\n"
	  "      --planner NAME            which plan to write (optimal)\n"
	  "      --kind N                  this kind of iteration alone\n"
	  "  -o, --output FILE             write the plan here\n"
	  "\nExit status: 0; 1 when the goal is out of reach (the plan written "
	  "is "
	  "then the\nnearest); 2 for bad arguments or files.\n",
	  cli_plan },
	{ "validate", "PLAN PROFILE", "check that a plan fits a profile",
	  "Exit status: 0 when it fits, 1 when it does not, 2 when a file "
	  "cannot "
	  "be read.\n",
	  cli_validate },
	{ "report", "DIR|RUN.json", "show what a run wrote to CKPT_OUT",
	  "Reads every run.*.json of a folder (one for each rank), and "
	  "profile.json beside\nthem for who holds the bytes at the peak.\n"
	  "\nExit status: 0; 1 when a budget was not held; 2 for bad arguments "
	  "or "
	  "files.\n",
	  cli_report },
	{ "info", "[--python PATH]", "show what was found on this machine",
	  "      --python PATH             this Python, not the first on PATH\n"
	  "\nExit status: 0 when the hooks are live, 1 when they are not.\n",
	  cli_info },
};

enum {
	COMMANDS = sizeof(commands) / sizeof(*commands)
};

static void print_usage(FILE *file)
{
	fputs("Usage: ckptagent COMMAND ...\n\n"
	      "Keeps PyTorch jobs under a memory budget. Commands:\n\n",
	      file);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(file, "  %-9s %s\n", commands[i].name,
			commands[i].summary);
	fputs("\nckptagent COMMAND --help says more; ckptagent --version.\n",
	      file);
}

void cli_help(const struct cli_command *command)
{
	printf("Usage: ckptagent %s %s\n\n%c%s.\n\n%s", command->name,
	       command->synopsis, command->summary[0] - 'a' + 'A',
	       command->summary + 1, command->details);
}

static void say(const struct cli_command *command, const char *format,
		va_list args)
{
	fprintf(stderr, "ckptagent %s: ", command->name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int cli_fault(const struct cli_command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(command, format, args);
	va_end(args);
	return CLI_USAGE;
}

int cli_misuse(const struct cli_command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(command, format, args);
	va_end(args);
	fprintf(stderr, "Try \"ckptagent %s --help\".\n", command->name);
	return CLI_USAGE;
}

static int run_command(int argc, char **argv)
{
	for (int i = 0; i < COMMANDS; i++)
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(&commands[i], argc, argv);
	fprintf(stderr, "ckptagent: no command is named \"%s\"\n", argv[0]);
	print_usage(stderr);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 2) {
		print_usage(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_usage(stdout);
		status = CLI_OK;
	} else if (!strcmp(argv[1], "--version")) {
		puts("ckptagent " VERSION);
		status = CLI_OK;
	} else {
		status = run_command(argc - 1, argv + 1);
	}
	if (fflush(stdout) || ferror(stdout)) {
		perror("ckptagent: standard output");
		return CLI_USAGE;
	}
	return status;
}
