/*
 * The command: one function a subcommand, one table (main.c). Messages go to
 * standard error and start with "ckptagent SUBCOMMAND: "; a fault of a file
 * names the file and the key.
 */
#ifndef CKPTAGENT_CLI_H
#define CKPTAGENT_CLI_H

enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1,    /* it worked, and the answer is no */
	CLI_USAGE = 2, /* bad arguments, or a file that cannot be read */

	/* run alone, as a shell does */
	CLI_NOT_EXECUTABLE = 126,
	CLI_NOT_FOUND = 127,
};

struct cli_command {
	const char *name;
	const char *synopsis; /* what follows the name */
	const char *summary;
	const char *details; /* the rest of --help */
	int (*run)(const struct cli_command *command, int argc, char **argv);
};

int cli_run(const struct cli_command *command, int argc, char **argv);
int cli_rehearse(const struct cli_command *command, int argc, char **argv);
int cli_plan(const struct cli_command *command, int argc, char **argv);
int cli_validate(const struct cli_command *command, int argc, char **argv);
int cli_report(const struct cli_command *command, int argc, char **argv);
int cli_info(const struct cli_command *command, int argc, char **argv);

/* Print the command's help to standard output. */
void cli_help(const struct cli_command *command);

/* Say what is wrong on standard error; returns CLI_USAGE. */
int cli_fault(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same, and where the help is. */
int cli_misuse(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
