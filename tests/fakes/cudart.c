/*
 * A CUDA runtime that prints each call after its own name, RUNTIME. Its memory
 * begins at START and asking for no bytes fails. Without POOLS it has no
 * cudaMallocFromPoolAsync, as the runtimes before 11.2; without DEVICES (the
 * device that every thread works on) no cudaGetDevice.
 */
#include "cudart.h"

#include <stdint.h>
#include <stdio.h>

#define PITCH 512
#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation */

static int allocate(const char *call, void **ptr, size_t bytes)
{
	static uintptr_t next = (uintptr_t)START;

	if (!bytes) {
		printf("%s %s refused\n", RUNTIME, call);
		return OUT_OF_MEMORY;
	}
	*ptr = (void *)next;
	next += 0x100000;
	printf("%s %s %zu\n", RUNTIME, call, bytes);
	return 0;
}

int cudaMalloc(void **ptr, size_t bytes)
{
	return allocate("malloc", ptr, bytes);
}

int cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	if (width)
		*pitch = (width + PITCH - 1) / PITCH * PITCH;
	return allocate("pitch", ptr, width * height);
}

int cudaMallocAsync(void **ptr, size_t bytes, void *stream)
{
	(void)stream;
	return allocate("async", ptr, bytes);
}

#ifdef POOLS
int cudaMallocFromPoolAsync(void **ptr, size_t bytes, void *pool, void *stream)
{
	(void)pool;
	(void)stream;
	return allocate("pool", ptr, bytes);
}
#endif

int cudaFree(void *ptr)
{
	printf("%s free%s\n", RUNTIME, ptr ? "" : " nothing");
	return 0;
}

int cudaFreeAsync(void *ptr, void *stream)
{
	(void)ptr;
	(void)stream;
	printf("%s free async\n", RUNTIME);
	return 0;
}

#ifdef DEVICES
int cudaGetDevice(int *device)
{
	*device = DEVICES;
	return 0;
}
#endif
