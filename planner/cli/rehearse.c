/* ckptagent rehearse: a CUDA job on a device that is not there. */
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "locate.h"
#include "preload.h"
#include "units.h"

struct rehearsal {
	const struct cli_command *command;
	const char *device, *count, *iterations, *budget, *python;
	char out[PATH_MAX];
	bool own_out; /* made by us, to be said at the end */
};

/* A number from `least` to `most`, or it is said what is accepted. */
static int check_number(const struct rehearsal *r, const char *name,
			const char *text, long least, long most)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (!errno && end != text && !*end && value >= least && value <= most)
		return CLI_OK;
	return cli_misuse(r->command, "--%s %s: accepted are %ld to %ld", name,
			  text, least, most);
}

static int check(const struct rehearsal *r)
{
	struct units_budget budget;
	int status = check_number(r, "iterations", r->iterations, 1, 1000);

	if (!status)
		status = check_number(r, "count", r->count, 1, 16);
	if (!status && r->budget &&
	    (units_budget(r->budget, &budget) || budget.kind != UNITS_BYTES))
		status = cli_misuse(r->command,
				    "--budget %s: accepted is a size such as "
				    "8G, 8GiB, 8GB or 8192M",
				    r->budget);
	return status;
}

/* 0; a status to leave with; or -1 when only the help was asked for. */
static int read_options(struct rehearsal *r, int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", 1, NULL, 'd' },	{ "count", 1, NULL, 'n' },
		{ "iterations", 1, NULL, 'i' }, { "budget", 1, NULL, 'b' },
		{ "out", 1, NULL, 'o' },	{ "python", 1, NULL, 'p' },
		{ "help", 0, NULL, 'h' },	{ NULL, 0, NULL, 0 },
	};
	const char *out = NULL;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			r->device = optarg;
			break;
		case 'n':
			r->count = optarg;
			break;
		case 'i':
			r->iterations = optarg;
			break;
		case 'b':
			r->budget = optarg;
			break;
		case 'o':
			out = optarg;
			break;
		case 'p':
			r->python = optarg;
			break;
		case 'h':
			return -1;
		case ':':
			return cli_misuse(r->command, "%s needs a value",
					  argv[optind - 1]);
		default:
			return cli_misuse(r->command, "unknown option %s",
					  argv[optind - 1]);
		}
	}
	if (optind == argc)
		return cli_misuse(r->command, "no command to run");
	if (out && snprintf(r->out, sizeof(r->out), "%s", out) >=
			   (int)sizeof(r->out))
		return cli_misuse(r->command, "--out: the path is too long");
	return check(r);
}

static int make_out(struct rehearsal *r)
{
	const char *folder = getenv("TMPDIR");

	if (*r->out)
		return CLI_OK;
	snprintf(r->out, sizeof(r->out), "%s/ckptagent-rehearsal-XXXXXX",
		 folder && *folder ? folder : "/tmp");
	r->own_out = true;
	if (mkdtemp(r->out))
		return CLI_OK;
	return cli_fault(r->command, "%s: %s", r->out, strerror(errno));
}

/* The job's own interpreter, if its first word is one. */
static const char *interpreter(const struct rehearsal *r, const char *first)
{
	const char *slash = strrchr(first, '/');
	const char *base = slash ? slash + 1 : first;

	if (r->python)
		return r->python;
	return strncmp(base, "python", 6) ? "python3" : first;
}

/* Where the device is made, once for each torch and kept. */
static int cache_folder(const struct rehearsal *r, char path[PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int length;

	if (cache && *cache == '/')
		length = snprintf(path, PATH_MAX, "%s/ckptagent/phantom", cache);
	else if (home && *home == '/')
		length = snprintf(path, PATH_MAX, "%s/.cache/ckptagent/phantom",
				  home);
	else
		length = snprintf(path, PATH_MAX, "%s/phantom", r->out);
	if (length < PATH_MAX)
		return CLI_OK;
	return cli_fault(r->command, "the path of the cache is too long");
}

/* In the child: what it prints is for the pipe. */
static void exec_generator(const char *python, const char *generator,
			   const char *cache, int out)
{
	dup2(out, STDOUT_FILENO);
	close(out);
	execlp(python, python, "-B", generator, "--out", cache, (char *)NULL);
	fprintf(stderr, "ckptagent rehearse: %s: %s\n", python,
		strerror(errno));
	_exit(127);
}

/* The last line that comes through a pipe, without its end. */
static void read_last_line(int from, char line[PATH_MAX])
{
	FILE *file = fdopen(from, "r");
	char text[PATH_MAX];

	*line = '\0';
	while (file && fgets(text, sizeof(text), file)) {
		text[strcspn(text, "\n")] = '\0';
		memcpy(line, text, sizeof(text));
	}
	if (file)
		fclose(file);
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) :
				   128 + WTERMSIG(status);
}

/* Make the device for the job's torch; `library` is what to preload. */
static int make_device(const struct rehearsal *r, const char *python,
		       char library[PATH_MAX])
{
	char *generator = locate_data("hooks/phantom/generate");
	char cache[PATH_MAX];
	int ends[2];
	pid_t child;

	if (!generator)
		return cli_fault(r->command, "the phantom device's sources are "
					     "neither beside this command nor "
					     "in its prefix");
	if (cache_folder(r, cache) || pipe(ends) < 0)
		return CLI_USAGE;
	child = fork();
	if (!child) {
		close(ends[0]);
		exec_generator(python, generator, cache, ends[1]);
	}
	close(ends[1]);
	free(generator);
	if (child < 0) {
		close(ends[0]);
		return cli_fault(r->command, "%s", strerror(errno));
	}
	read_last_line(ends[0], library);
	if (wait_for(child) || access(library, R_OK))
		return cli_fault(r->command,
				 "no device could be made for the torch of %s "
				 "(--python PATH names another interpreter)",
				 python);
	return CLI_OK;
}

static int set_variables(const struct rehearsal *r)
{
	const char *const variables[][2] = {
		{ "CKPT_PHANTOM_DEVICE", r->device },
		{ "CKPT_PHANTOM_COUNT", r->count },
		{ "CKPT_PHANTOM_OVERCOMMIT", "1" },
		{ "CKPT_REHEARSE", r->iterations },
		{ "CKPT_OUT", r->out },
		{ "CKPT_BUDGET", r->budget },
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		if (variables[i][1] &&
		    setenv(variables[i][0], variables[i][1], 1) < 0)
			return cli_fault(r->command, "out of memory");
	return CLI_OK;
}

static int start(const struct rehearsal *r, char **job)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0)
		return cli_fault(r->command, "%s", strerror(errno));
	if (!child)
		_exit(preload_exec(r->command, job));
	status = wait_for(child);
	if (status)
		cli_fault(r->command, "the job ended with status %d", status);
	return status;
}

static void print_file(const char *path)
{
	char text[4096];
	FILE *file = fopen(path, "r");

	while (file && fgets(text, sizeof(text), file))
		fputs(text, stdout);
	if (file)
		fclose(file);
}

/* What each process found; CLI_NO if none did, or it does not fit. */
static int print_findings(const struct rehearsal *r)
{
	char pattern[PATH_MAX + 32];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/rehearsal.*.txt", r->out);
	if (glob(pattern, 0, NULL, &found)) {
		cli_fault(r->command,
			  "the job ended before there was anything to say: it "
			  "needs a few training iterations on a CUDA device");
		return CLI_NO;
	}
	putchar('\n');
	for (size_t i = 0; i < found.gl_pathc; i++)
		print_file(found.gl_pathv[i]);
	globfree(&found);
	printf("\nNot known here: what libraries take behind torch's back (cuDNN, "
	       "cuBLAS and NCCL\nworkspaces), shapes and branches that depend on "
	       "data (no value is real), kernel times.\n"
	       "\nplan: %s/plan.json (CKPT_PLAN), profile: %s/profile.json; who "
	       "holds the peak:\n  ckptagent report %s\n",
	       r->out, r->out, r->out);
	return CLI_OK;
}

int cli_rehearse(const struct cli_command *command, int argc, char **argv)
{
	struct rehearsal r = { .command = command,
			       .device = "A100-40G",
			       .count = "1",
			       .iterations = "3" };
	char library[PATH_MAX];
	int status = read_options(&r, argc, argv), ended;

	if (status < 0)
		cli_help(command);
	if (status)
		return status < 0 ? CLI_OK : status;
	status = make_out(&r);
	if (!status)
		status = make_device(&r, interpreter(&r, argv[optind]),
				     library);
	if (!status)
		status = set_variables(&r);
	if (!status)
		status = preload(command, library);
	if (status)
		return status;
	ended = start(&r, argv + optind);
	status = print_findings(&r);
	return ended ? ended : status;
}
