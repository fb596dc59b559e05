/* ckptagent info: what was found, and whether the hooks are live. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "locate.h"

/* torch's version without importing torch, which takes seconds. */
static const char find_torch[] = "import platform\n"
				 "print('version', platform.python_version())\n"
				 "try:\n"
				 "    from importlib.metadata import version\n"
				 "    print('torch', version('torch'))\n"
				 "except Exception:\n"
				 "    print('torch', '-')\n";

/* The library is in the process already; ctypes hands out the same one. */
static const char ask_hooks[] = "import ctypes, sys, torch\n"
				"torch.ones(8)\n"
				"agent = ctypes.CDLL(sys.argv[1])\n"
				"agent.ckptagent_events.restype = "
				"ctypes.c_uint64\n"
				"print('live', agent.ckptagent_live_hooks())\n"
				"print('runtime', "
				"agent.ckptagent_live_cudart_hooks())\n"
				"print('events', agent.ckptagent_events())\n"
				"if torch.version.cuda:\n"
				"    print('cuda', torch.cuda."
				"get_allocator_backend())\n";

/* Lines "KEY VALUE" that a child printed. */
struct answer {
	char text[4096];
	int status; /* exit status, -1: it did not exit by itself */
};

/* Before what is preloaded already, such as a phantom device. */
static void preload_first(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	char both[8192];

	snprintf(both, sizeof(both), "%s%s%s", library, others ? ":" : "",
		 others ? others : "");
	setenv("LD_PRELOAD", both, 1);
}

static void run_child(const char *python, const char *script,
		      const char *library, int out)
{
	if (library)
		preload_first(library);
	/* A budget of the surroundings must not be planned for here. */
	for (const char *const *v =
		     (const char *const[]){ "CKPT_BUDGET", "CKPT_PLAN",
					    "CKPT_OUT", "CKPT_DISABLE", NULL };
	     *v; v++)
		unsetenv(*v);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execl(python, python, "-c", script, library ? library : "", NULL);
	_exit(127);
}

static void read_answer(struct answer *answer, int in)
{
	size_t length = 0;
	ssize_t n;

	for (;;) {
		n = read(in, answer->text + length,
			 sizeof(answer->text) - 1 - length);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			break;
		length += n > 0 ? (size_t)n : 0;
	}
	answer->text[length] = '\0';
}

static void ask(struct answer *answer, const char *python, const char *script,
		const char *library)
{
	int ends[2], status = 0;
	pid_t child;

	*answer = (struct answer){ .status = -1 };
	if (pipe(ends) < 0)
		return;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(python, script, library, ends[1]);
	}
	close(ends[1]);
	if (child > 0)
		read_answer(answer, ends[0]);
	close(ends[0]);
	if (child > 0 && waitpid(child, &status, 0) == child &&
	    WIFEXITED(status))
		answer->status = WEXITSTATUS(status);
}

/* The value of a line "KEY VALUE", cut out of the text; NULL: no such line. */
static const char *value_of(struct answer *answer, const char *key,
			    char value[256])
{
	size_t length = strlen(key);
	char *line = answer->text;

	while (line && (strncmp(line, key, length) || line[length] != ' ')) {
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (!line)
		return NULL;
	line += length + 1;
	snprintf(value, 256, "%.*s", (int)strcspn(line, "\n"), line);
	return value;
}

static void print_found(const char *what, const char *path)
{
	printf("%-18s %s\n", what, path ? path : "not found");
}

/* True when the hooks are live. */
static bool print_hooks(const char *python, const char *library)
{
	struct answer answer;
	char live[256], events[256], runtime[256], cuda[256];

	if (!library) {
		print_found("hooks", "not checked: no libckptagent.so");
		return false;
	}
	ask(&answer, python, ask_hooks, library);
	if (answer.status || !value_of(&answer, "live", live) ||
	    !value_of(&answer, "events", events) ||
	    !value_of(&answer, "runtime", runtime)) {
		print_found("hooks", "not checked: the trial failed, see "
				     "above");
		return false;
	}
	if (strcmp(live, "1")) {
		print_found("hooks", "degraded: torch's allocator does not "
				     "call them");
		return false;
	}
	printf("%-18s live: %s allocator events seen\n", "hooks", events);
	if (strcmp(runtime, "1"))
		print_found("CUDA runtime",
			    "degraded: it is inside torch's library; what "
			    "others take from a device is not seen");
	if (value_of(&answer, "cuda", cuda))
		printf("%-18s %s%s\n", "CUDA allocator", cuda,
		       strcmp(cuda, "native") ?
			       ": each of its calls is a tensor" :
			       ": its events are the tensors");
	return true;
}

/* True when the hooks are live. */
static bool print_python(const char *python, const char *library)
{
	struct answer answer;
	char version[256], torch[256];

	if (!python) {
		print_found("python", "not found on PATH");
		return false;
	}
	ask(&answer, python, find_torch, NULL);
	if (answer.status || !value_of(&answer, "version", version) ||
	    !value_of(&answer, "torch", torch)) {
		printf("%-18s %s: does not run\n", "python", python);
		return false;
	}
	printf("%-18s %s, version %s\n", "python", python, version);
	if (!strcmp(torch, "-")) {
		print_found("torch", "not installed for this Python");
		print_found("hooks", "not checked: no torch");
		return false;
	}
	print_found("torch", torch);
	return print_hooks(python, library);
}

int cli_info(const struct cli_command *command, int argc, char **argv)
{
	static const struct option options[] = { { "python", 1, NULL, 'p' },
						 { "help", 0, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	char *self = locate_command(), *python = NULL;
	char *agent = locate_library("libckptagent.so");
	char *planner = locate_library("libckptplan.so");
	int option, status = CLI_OK;

	opterr = 0;
	while (!status &&
	       (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'h') {
			cli_help(command);
			goto out;
		}
		if (option != 'p') {
			status = cli_misuse(command, "%s %s",
					    option == ':' ? "no value for" :
							    "unknown option",
					    argv[optind - 1]);
			goto out;
		}
		free(python);
		python = strdup(optarg);
	}
	if (optind != argc) {
		status = cli_misuse(command, "takes no argument");
		goto out;
	}
	if (!python)
		python = locate_on_path("python3");
	printf("%-18s %s\n", "version", VERSION);
	print_found("command", self);
	print_found("libckptagent.so", agent);
	print_found("libckptplan.so", planner);
	if (!print_python(python, agent))
		status = CLI_NO;
out:
	free(self);
	free(python);
	free(agent);
	free(planner);
	return status;
}
