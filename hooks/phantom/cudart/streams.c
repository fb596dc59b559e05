#include "abi.h"
#include "capture.h"
#include "device.h"
#include "stream.h"

#define PRIORITY_GREATEST (-5)

bool stream_of(cudaStream_t handle, struct phantom_stream **stream)
{
	*stream = NULL;
	if ((uintptr_t)handle <= 2)
		return true;
	if (!phantom_handle_is(handle, PHANTOM_STREAM))
		return false;
	*stream = handle;
	return true;
}

int stream_device(cudaStream_t handle)
{
	struct phantom_stream *stream;

	stream_of(handle, &stream);
	return stream ? stream->device : phantom_device();
}

PHANTOM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream,
						     unsigned flags,
						     int priority)
{
	if (!phantom_device_exists(phantom_device()))
		return cudart_fail(cudaErrorNoDevice);
	*stream = phantom_handle_new(PHANTOM_STREAM, sizeof(**stream));
	if (!*stream)
		return cudart_fail(cudaErrorMemoryAllocation);
	if (priority > 0)
		priority = 0;
	if (priority < PRIORITY_GREATEST)
		priority = PRIORITY_GREATEST;
	(*stream)->device = phantom_device();
	(*stream)->flags = flags;
	(*stream)->priority = priority;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream,
						  unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

PHANTOM_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, 0, 0);
}

PHANTOM_API cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
	if (!phantom_handle_is(handle, PHANTOM_STREAM))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	phantom_handle_end(handle, PHANTOM_STREAM);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaStreamGetPriority(cudaStream_t handle,
					      int *priority)
{
	struct phantom_stream *stream;

	*priority = 0;
	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (stream)
		*priority = stream->priority;
	return cudaSuccess;
}

/* All has happened; but one must not wait for a stream that is captured. */
static cudaError_t wait_for(cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	return stream ? capture_ends_by_wait(stream) : cudaSuccess;
}

PHANTOM_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return wait_for(stream);
}

PHANTOM_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return wait_for(stream);
}

/* Runs at once, on the calling thread; captured ones at each launch. */
PHANTOM_API cudaError_t cudaLaunchHostFunc(cudaStream_t handle,
					   cudaHostFn_t function, void *data)
{
	struct phantom_stream *stream;

	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (!capture_host_function(stream, function, data))
		function(data);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaStreamAddCallback(cudaStream_t handle,
					      cudaStreamCallback_t callback,
					      void *data, unsigned flags)
{
	struct phantom_stream *stream;

	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (flags)
		return cudart_fail(cudaErrorInvalidValue);
	if (stream && capture_ends_by_wait(stream))
		return cudaErrorStreamCaptureUnsupported;
	callback(handle, cudaSuccess, data);
	return cudaSuccess;
}
