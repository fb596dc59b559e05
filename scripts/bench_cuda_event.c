/*
 * Prints what an event of torch's CUDA caching allocator costs in its hook.
 *
 *   bench_cuda_event [LIVE [ROUNDS]]
 *
 * As bench_event, but through the function that torch calls: LIVE tensors (10,000
 * by default) at addresses 512 bytes and more apart, then ROUNDS pairs of a release
 * of a random one and an allocation, without and with a tape that records. What the
 * hook needs of the rest of the agent stands here, as cheap as it is there.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "bench_churn.h"
#include "boot.h"
#include "hooks.h"
#include "ledger.h"
#include "symbols.h"
#include "tape.h"

#define TRIES 10
#define TENSOR_BYTES 4096
#define GRAIN 512 /* of the caching allocator */

static uint64_t heap_top = UINT64_C(0x7f1200000000);
static uint64_t forwarded;
static _Atomic int on = 1;

static void forward(void *ptr, int64_t bytes, size_t allocated, size_t reserved,
		    struct c10_device device)
{
	(void)ptr;
	(void)bytes;
	(void)allocated;
	(void)reserved;
	(void)device;
	forwarded++;
}

static void *_Atomic original = (void *)forward;

void *symbols_original(enum hook hook, const void *caller)
{
	(void)hook;
	(void)caller;
	return atomic_load_explicit(&original, memory_order_acquire);
}

bool agent_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

void agent_stand_down(const char *why)
{
	fprintf(stderr, "bench_cuda_event: %s\n", why);
	exit(EXIT_FAILURE);
}

/* As after the start of the shim, which is all that a training job sees. */
void boot_event_locked(void)
{
	(void)atomic_load(&on);
}

static void event(uint64_t address, int64_t bytes)
{
	const struct c10_device device = { .type = 1, .index = 0 };

	hook_c10_cuda_memory((void *)(uintptr_t)address, bytes, 0,
			     (size_t)1 << 34, device);
}

static uint64_t allocate(void)
{
	heap_top += GRAIN * (1 + next_random() % 64);
	event(heap_top, TENSOR_BYTES);
	return heap_top;
}

static void release(uint64_t address)
{
	event(address, -TENSOR_BYTES);
}

/* Of several tries, the one that others on the machine disturbed least. */
static double least(uint64_t *address, size_t live, size_t rounds)
{
	double best = churn(address, live, rounds / TRIES);

	for (int i = 1; i < TRIES; i++) {
		double next = churn(address, live, rounds / TRIES);

		best = next < best ? next : best;
	}
	return best;
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
	printf("ns an event          %.1f\n", least(address, live, rounds));
	ledger_tape_begin(LEDGER_CUDA);
	printf("ns an event, taped   %.1f\n", least(address, live, rounds));
	free(address);
	return forwarded ? EXIT_SUCCESS : EXIT_FAILURE;
}
