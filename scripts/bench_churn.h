/*
 * What the benchmarks of events share: addresses at random, the time, and events
 * in pairs. The program that includes it says what an event is.
 */
#ifndef BENCH_CHURN_H
#define BENCH_CHURN_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* An allocation at a new address; its release. */
static uint64_t allocate(void);
static void release(uint64_t address);

static uint64_t next_random(void)
{
	static uint64_t seed = 88172645463325252u;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds an event: a random one of `live` goes and another comes. */
static double churn(uint64_t *address, size_t live, size_t rounds)
{
	double start = now();

	for (size_t i = 0; i < rounds; i++) {
		size_t k = next_random() % live;

		release(address[k]);
		address[k] = allocate();
	}
	return (now() - start) / (2.0 * (double)rounds);
}

#endif
