/*
 * Stands for libtorch_cpu.so: it needs CUPTI, and its profiler uses it as
 * Kineto does, with buffers that it knows by their addresses.
 */
#include "cupti.h"

#include <stdio.h>

EXPORT void profile(void);
EXPORT void profiled(void);

static uint8_t own[1 << 16] __attribute__((aligned(8)));
static int kernels;

static void request(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
	*buffer = own;
	*bytes = sizeof(own);
	*records_max = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer,
		     size_t bytes, size_t valid_bytes)
{
	void *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	if (buffer != own)
		printf("an unknown buffer\n");
	while (!cuptiActivityGetNextRecord(buffer, valid_bytes, &record))
		kernels += *(uint32_t *)record ==
			   CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

void profile(void)
{
	kernels = 0;
	cuptiActivityRegisterCallbacks(request, complete);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

void profiled(void)
{
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	printf("profiled %d\n", kernels);
}
