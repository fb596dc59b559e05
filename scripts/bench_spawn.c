/*
 * Prints what a preloaded library costs a process that has no use for it.
 *
 *   bench_spawn LIBRARY [ROUNDS [PROGRAM]]
 *
 * PROGRAM (/bin/true) is started and awaited with and without the library in
 * turns, so that a slow moment of the machine meets both. Two lines:
 * microseconds of the median process without, and how many more the median of
 * the rounds took with it.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS 2000

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Microseconds, or -1 when the program does not run. */
static double run(const char *program, char *const environment[])
{
	char *const arguments[] = { (char *)program, NULL };
	double begin = now_us();
	int status = -1;
	pid_t pid;

	if (posix_spawn(&pid, program, NULL, NULL, arguments, environment))
		return -1;
	waitpid(pid, &status, 0);
	return status ? -1 : now_us() - begin;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : ROUNDS;
	const char *program = argc > 3 ? argv[3] : "/bin/true";
	double *plain = calloc(rounds, sizeof(*plain));
	double *more = calloc(rounds, sizeof(*more));
	char *none[] = { NULL };
	char preload[4096];
	char *with[] = { preload, NULL };

	if (argc < 2 || !rounds || !plain || !more)
		return EXIT_FAILURE;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	for (size_t i = 0; i < rounds; i++) {
		double loaded;

		plain[i] = run(program, none);
		loaded = run(program, with);
		if (plain[i] < 0 || loaded < 0)
			return EXIT_FAILURE;
		more[i] = loaded - plain[i];
	}
	printf("us a process %.1f\n", median(plain, rounds));
	printf("us more with the library %.1f\n", median(more, rounds));
	free(plain);
	free(more);
	return EXIT_SUCCESS;
}
