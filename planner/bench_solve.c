/*
 * How long `optimal` takes, how much memory and how sure it is: chains of
 * unequal blocks whose recompute time is proportional to their bytes within a
 * few percent (the hard case). Each line is the worst of several seeds and
 * budgets; times are CPU times, the least of three runs of each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "floor.h"
#include "planner.h"
#include "tape_peak.h"

struct bench {
	const char *name;
	int blocks;
	double noise;
	bool rising; /* gradients grow while backward runs */
};

struct figures {
	double ms, gap;
	long kib;
};

/* splitmix64: the same chains everywhere. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static double uniform_draw(uint64_t *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

static void add_segment(struct tape *tape, char mark, int call, int64_t live,
			int64_t peak)
{
	tape->segments[tape->segment_count++] =
		(struct tape_segment){ mark, call, live, peak, -1 };
}

static void add_block(struct tape *tape, int i, double noise, uint64_t *seed)
{
	int64_t bytes = 1000000 + (int64_t)(draw(seed) % 100000000);
	struct tape_call *call = &tape->calls[i];

	call->dropped = true;
	call->saved_bytes = bytes;
	call->recompute_ms = (double)bytes * 1e-7 *
			     (1 + noise * (2 * uniform_draw(seed) - 1));
	tape->savers[i] = i;
	tape->storages[i] = (struct tape_storage){
		bytes, (int32_t)tape->segment_count + 1, (uint32_t)i, 1
	};
	add_segment(tape, 'F', i, 0, bytes);
	add_segment(tape, 'E', i, bytes, bytes);
	add_segment(tape, 'D', i, 0, 0);
}

static struct tape make_chain(const struct bench *bench, uint64_t seed)
{
	size_t n = (size_t)bench->blocks;
	struct tape tape = { .call_count = n, .storage_count = n };
	struct why why = { NULL, 0 };
	int64_t live = 0;

	tape.calls = calloc(n, sizeof(*tape.calls));
	tape.storages = calloc(n, sizeof(*tape.storages));
	tape.segments = calloc(5 * n + 2, sizeof(*tape.segments));
	tape.savers = calloc(n, sizeof(*tape.savers));
	if (!tape.calls || !tape.storages || !tape.segments || !tape.savers)
		abort();
	add_segment(&tape, 'S', -1, 0, 0);
	for (int i = 0; i < bench->blocks; i++)
		add_block(&tape, i, bench->noise, &seed);
	for (int i = bench->blocks; i-- > 0;) {
		int64_t bytes = tape.storages[i].bytes;

		add_segment(&tape, 'B', i, live, live + bytes);
		add_segment(&tape, 'R', i, live + bytes, live + 2 * bytes);
		live += bench->rising ? bytes / 2 : 0;
	}
	add_segment(&tape, 'Z', -1, live, live);
	if (tape_index(&tape, "", &why) < 0)
		abort();
	return tape;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void solve_one(const struct tape *tape, double share,
		      struct figures *worst)
{
	size_t n = tape->call_count;
	bool *keep = malloc(n);
	int64_t *bytes = malloc((tape->segment_count + 1) * sizeof(*bytes));
	struct why why = { NULL, 0 };
	double gap_ms, start, ms = 1e9, all = 0;
	int64_t low, high;

	if (!keep || !bytes)
		abort();
	low = floor_bytes(tape, keep, bytes);
	memset(keep, true, n);
	high = tape_peak(tape, keep, bytes).bytes;
	struct goal goal = { tape, GOAL_PEAK,
			     low + (int64_t)(share * (double)(high - low)) };
	for (int i = 0; i < 3; i++) {
		start = now_ms();
		if (optimal_choose_gap(&goal, keep, &gap_ms, &why) < 0)
			abort();
		if (now_ms() - start < ms)
			ms = now_ms() - start;
	}
	if (tape_peak(tape, keep, bytes).bytes > goal.bytes)
		abort();
	for (size_t i = 0; i < n; i++)
		all += tape->calls[i].recompute_ms;
	if (ms > worst->ms)
		worst->ms = ms;
	if (gap_ms / all > worst->gap)
		worst->gap = gap_ms / all;
	free(keep);
	free(bytes);
}

static struct figures run(const struct bench *bench)
{
	static const double shares[] = { 0.1, 0.25, 0.5, 0.75, 0.9 };
	struct figures worst = { 0, 0, 0 };
	struct rusage usage;

	for (uint64_t seed = 0; seed < 5; seed++) {
		struct tape tape = make_chain(bench, seed);

		for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
			solve_one(&tape, shares[i], &worst);
		tape_free(&tape);
	}
	getrusage(RUSAGE_SELF, &usage);
	worst.kib = usage.ru_maxrss;
	return worst;
}

/* A process each, so that the peak is this line's alone. */
static int run_apart(const struct bench *bench)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct figures f = run(bench);

		printf("%-40s %8.2f ms %8.1f MiB %10.6f %%\n", bench->name,
		       f.ms, (double)f.kib / 1024, 100 * f.gap);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return 1;
	return status != 0;
}

int main(void)
{
	static const struct bench benches[] = {
		{ "24 blocks, 10 %", 24, 0.10, false },
		{ "24 blocks, 2 %", 24, 0.02, false },
		{ "300 blocks, 2 %", 300, 0.02, false },
		{ "300 blocks, 10 %", 300, 0.10, false },
		{ "300 blocks, 2 %, growing gradients", 300, 0.02, true },
		{ "300 blocks, 10 %, growing gradients", 300, 0.10, true },
	};
	int failed = 0;

	printf("%-40s %11s %12s %12s\n", "solve, worst of 25", "time", "memory",
	       "gap");
	for (size_t i = 0; i < sizeof(benches) / sizeof(*benches); i++)
		failed |= run_apart(&benches[i]);
	return failed;
}
