#include "abi.h"
#include "capture.h"
#include "device.h"
#include "stream.h"

#include <time.h>

#define DISABLE_TIMING 0x02u /* cudaEventDisableTiming */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool is_event(cudaEvent_t event)
{
	return phantom_handle_is(event, PHANTOM_EVENT);
}

PHANTOM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event,
						 unsigned flags)
{
	if (!phantom_device_exists(phantom_device()))
		return cudart_fail(cudaErrorNoDevice);
	*event = phantom_handle_new(PHANTOM_EVENT, sizeof(**event));
	if (!*event)
		return cudart_fail(cudaErrorMemoryAllocation);
	(*event)->flags = flags;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

PHANTOM_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	if (!is_event(event))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	phantom_handle_end(event, PHANTOM_EVENT);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!is_event(event) || !stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	event->recorded = true;
	event->nanoseconds = now();
	event->capture = stream ? capture_id(stream) : 0;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event,
						 cudaStream_t stream,
						 unsigned flags)
{
	(void)flags; /* an external record in a capture is a record */
	return cudaEventRecord(event, stream);
}

PHANTOM_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	if (!is_event(event))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (event->capture && capture_is_active(event->capture))
		return cudart_fail(cudaErrorCapturedEvent);
	return capture_forbids();
}

PHANTOM_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (!is_event(event))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (event->capture && capture_is_active(event->capture))
		return cudart_fail(cudaErrorCapturedEvent);
	return cudaSuccess;
}

/* The time between the two calls on the host: kernels take none. */
PHANTOM_API cudaError_t cudaEventElapsedTime(float *milliseconds,
					     cudaEvent_t start, cudaEvent_t end)
{
	*milliseconds = 0;
	if (!is_event(start) || !is_event(end) || !start->recorded ||
	    !end->recorded || (start->flags | end->flags) & DISABLE_TIMING)
		return cudart_fail(cudaErrorInvalidResourceHandle);
	*milliseconds = (float)((double)(int64_t)(end->nanoseconds -
						  start->nanoseconds) /
				1e6);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaStreamWaitEvent(cudaStream_t handle,
					    cudaEvent_t event, unsigned flags)
{
	struct phantom_stream *stream;

	(void)flags;
	if (!is_event(event) || !stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	return stream ? capture_join(stream, event) : cudaSuccess;
}
