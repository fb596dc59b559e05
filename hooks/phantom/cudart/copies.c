#include "abi.h"
#include "activity.h"
#include "capture.h"
#include "content.h"
#include "stream.h"

/*
 * Copies and fills, done when they are called; see content.h for which. The
 * kind (host to device and so on) follows from the addresses.
 */

PHANTOM_API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
				   int kind)
{
	cudaError_t error = capture_forbids();

	(void)kind;
	if (!error)
		phantom_copy(to, from, bytes);
	return error;
}

PHANTOM_API cudaError_t cudaMemcpyAsync(void *to, const void *from,
					size_t bytes, int kind,
					cudaStream_t handle)
{
	struct phantom_stream *stream;

	(void)kind;
	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (!capture_node(stream, GRAPH_MEMCPY)) {
		phantom_copy(to, from, bytes);
		phantom_did(PHANTOM_COPY, stream_device(handle), bytes);
	}
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device,
					    const void *from, int from_device,
					    size_t bytes, cudaStream_t stream)
{
	(void)to_device;
	(void)from_device;
	return cudaMemcpyAsync(to, from, bytes, 0, stream);
}

PHANTOM_API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch,
					  const void *from, size_t from_pitch,
					  size_t width, size_t height, int kind,
					  cudaStream_t handle)
{
	struct phantom_stream *stream;

	(void)kind;
	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (width > to_pitch || width > from_pitch)
		return cudart_fail(cudaErrorInvalidValue);
	if (!capture_node(stream, GRAPH_MEMCPY))
		phantom_copy_rows(to, to_pitch, from, from_pitch, width,
				  height);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
	phantom_fill(to, value, bytes);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
					cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (!capture_node(stream, GRAPH_MEMSET)) {
		phantom_fill(to, value, bytes);
		phantom_did(PHANTOM_FILL, stream_device(handle), bytes);
	}
	return cudaSuccess;
}
