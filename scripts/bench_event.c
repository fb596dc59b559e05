/*
 * Prints what an allocator event costs in the ledger.
 *
 *   bench_event [LIVE [ROUNDS]]
 *
 * LIVE allocations (10,000 by default) are kept live at made-up, 64-byte
 * aligned addresses as a heap would hand them out; then ROUNDS pairs of a free
 * of a random one and an allocation at a new address are timed, without and
 * with a tape that records. One line each: nanoseconds an event, and the bytes of
 * memory that each further live allocation costs, up to ten times as many.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_churn.h"
#include "ledger.h"
#include "tape.h"

static uint64_t heap_top = UINT64_C(0x7f1200000040);

static uint64_t allocate(void)
{
	heap_top += 64 * (1 + next_random() % 64);
	if (ledger_alloc(0, heap_top, 4096))
		exit(EXIT_FAILURE);
	return heap_top;
}

static void release(uint64_t address)
{
	ledger_free(address);
}

/* By the pages themselves: the counters in statm lag behind by up to 64. */
static long resident_bytes(void)
{
	FILE *table = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	if (!table)
		return -1;
	while (fgets(line, sizeof(line), table))
		if (sscanf(line, "Rss: %ld kB", &kib) == 1)
			break;
	fclose(table);
	return 1024 * kib;
}

/* The memory that each of so many more allocations costs. */
static double bytes_each(size_t more)
{
	long before = resident_bytes();

	for (size_t k = 0; k < more; k++)
		allocate();
	return (double)(resident_bytes() - before) / (double)more;
}

int main(int argc, char **argv)
{
	size_t live = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
	size_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000000;
	uint64_t *address = live ? malloc(live * sizeof(*address)) : NULL;

	if (!address)
		return EXIT_FAILURE;
	for (size_t k = 0; k < live; k++)
		address[k] = allocate();
	printf("live allocations     %zu\n", live);
	printf("ns an event          %.1f\n", churn(address, live, rounds));
	ledger_tape_begin(0);
	printf("ns an event, taped   %.1f\n", churn(address, live, rounds));
	printf("bytes each           %.1f\n", bytes_each(9 * live));
	free(address);
	return EXIT_SUCCESS;
}
