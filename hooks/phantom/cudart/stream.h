/*
 * Streams and events. Everything that is put on a stream has happened when the
 * call returns; a stream only knows its device, its priority, and whether a
 * graph is captured from it.
 */
#ifndef PHANTOM_CUDART_STREAM_H
#define PHANTOM_CUDART_STREAM_H

#include "abi.h"
#include "handle.h"

#include <stdbool.h>

struct phantom_stream {
	struct phantom_handle head;
	int device;
	int priority;
	unsigned flags;
	uint64_t capture; /* the last one it was part of; see capture.h */
};

struct phantom_event {
	struct phantom_handle head;
	unsigned flags;
	bool recorded;
	uint64_t nanoseconds; /* of CLOCK_MONOTONIC, when it was recorded */
	uint64_t capture;     /* the one it was recorded in, or 0 */
};

/*
 * The stream of a handle: NULL for the default ones (0, 1 and 2 are the null,
 * the legacy and the per-thread one). False: it is no stream.
 */
bool stream_of(cudaStream_t handle, struct phantom_stream **stream);

/* The device of a stream: the calling thread's for a default one. */
int stream_device(cudaStream_t handle);

#endif
