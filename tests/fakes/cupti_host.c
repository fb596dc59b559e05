/*
 * A process whose regions are timed by the agent with CUPTI.
 *
 *   cupti_host STEP…
 *
 * The steps: load:LIBRARY (what stands for libtorch_cpu.so); begin, enter,
 * leave (the innermost), leave_all (the outermost, in one), end (prints the
 * nanoseconds of every region entered so far); launch:NS, copy:NS, many:N (as
 * many launches of 1 ns); deliver; stack; profile and profiled (the job's own
 * profiler); fork (what follows is done in a child).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

#define REGIONS 64

static void *library;
static uint64_t entered[REGIONS], open[REGIONS];
static int entered_count, depth;
static char why[256];

static void *symbol(void *from, const char *name)
{
	void *found = dlsym(from, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	return found;
}

static void load(const char *name)
{
	library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
}

static void plain(const char *name)
{
	((void (*)(void))symbol(library, name))();
}

static void launch(const char *name, uint64_t nanoseconds)
{
	((void (*)(uint64_t))symbol(library, name))(nanoseconds);
}

static void result(const char *what, int error)
{
	if (error)
		printf("%s %d: %s\n", what, error, why);
}

static void begin(void)
{
	result("begin", ((int (*)(char *, size_t))symbol(
				RTLD_DEFAULT, "ckptagent_cupti_begin"))(
				why, sizeof(why)));
}

static void enter(void)
{
	uint64_t region = ((uint64_t(*)(void))symbol(
		RTLD_DEFAULT, "ckptagent_cupti_enter"))();

	if (!region)
		printf("no region\n");
	open[depth++] = entered[entered_count++] = region;
}

static void leave(void)
{
	((void (*)(uint64_t))symbol(RTLD_DEFAULT, "ckptagent_cupti_leave"))(
		open[--depth]);
}

static void end(void)
{
	uint64_t nanoseconds[REGIONS] = { 0 };
	int error = ((int (*)(size_t, const uint64_t *, uint64_t *, char *,
			      size_t))symbol(RTLD_DEFAULT,
					     "ckptagent_cupti_end"))(
		(size_t)entered_count, entered, nanoseconds, why, sizeof(why));

	result("end", error);
	if (error)
		return;
	printf("ns");
	for (int i = 0; i < entered_count; i++)
		printf(" %llu", (unsigned long long)nanoseconds[i]);
	printf("\n");
}

/* The parent's exit status is the child's. */
static void in_child(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		return;
	waitpid(child, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

static void step_with_value(const char *name)
{
	const char *word;

	if ((word = value(name, "load:")))
		load(word);
	else if ((word = value(name, "launch:")))
		launch("fake_launch", strtoull(word, NULL, 10));
	else if ((word = value(name, "copy:")))
		launch("fake_copy", strtoull(word, NULL, 10));
	else if ((word = value(name, "many:")))
		for (long n = strtol(word, NULL, 10); n > 0; n--)
			launch("fake_launch", 1);
}

static void step(const char *name)
{
	if (!strcmp(name, "begin"))
		begin();
	else if (!strcmp(name, "enter"))
		enter();
	else if (!strcmp(name, "leave"))
		leave();
	else if (!strcmp(name, "leave_all"))
		for (depth = 1; depth;)
			leave();
	else if (!strcmp(name, "end"))
		end();
	else if (!strcmp(name, "deliver"))
		plain("fake_deliver");
	else if (!strcmp(name, "stack"))
		plain("fake_stack");
	else if (!strcmp(name, "profile") || !strcmp(name, "profiled"))
		plain(name);
	else if (!strcmp(name, "fork"))
		in_child();
	else
		step_with_value(name);
}

int main(int argc, char **argv)
{
	take_steps(argc, argv);
	return EXIT_SUCCESS;
}
