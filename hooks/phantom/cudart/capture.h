/*
 * Stream capture, as the CUDA programming guide describes it: which streams are
 * part of a capture, what is not allowed meanwhile, and what ends it early.
 *
 * A stream is part of a capture from its begin, or from when it waits for an
 * event of the capture, to the capture's end.
 */
#ifndef PHANTOM_CUDART_CAPTURE_H
#define PHANTOM_CUDART_CAPTURE_H

#include "abi.h"
#include "graph.h"
#include "stream.h"

/* enum cudaStreamCaptureMode */
enum {
	CAPTURE_MODE_GLOBAL = 0,
	CAPTURE_MODE_THREAD_LOCAL = 1,
	CAPTURE_MODE_RELAXED = 2
};

/* enum cudaStreamCaptureStatus */
enum {
	CAPTURE_NONE = 0,
	CAPTURE_ACTIVE = 1,
	CAPTURE_INVALIDATED = 2
};

/* What is to be known of a stream's capture; id 0 and no graph for none. */
struct capture_info {
	int status;
	unsigned long long id;
	cudaGraph_t graph;
};

struct capture_info capture_info(cudaStream_t stream);

/* `graph` becomes the capture's, if it begins; NULL is one that failed. */
cudaError_t capture_begin(cudaStream_t stream, cudaGraph_t graph, int mode);
/* Hands out the graph of the capture that began in `stream`. */
cudaError_t capture_end(cudaStream_t stream, cudaGraph_t *graph);

/* The capture that a stream is part of now, or 0. */
uint64_t capture_id(const struct phantom_stream *stream);
bool capture_is_active(uint64_t id);

/*
 * Called for what is put on a stream (NULL: a default one). True: it became a
 * node of a graph, and is not to be done now.
 */
bool capture_node(struct phantom_stream *stream, enum graph_node type);
bool capture_host_function(struct phantom_stream *stream, cudaHostFn_t function,
			   void *data);

/*
 * For a call that is unsafe while the thread, or in global mode any thread,
 * captures. An error, which the capture does not survive, or cudaSuccess.
 */
cudaError_t capture_forbids(void);

/* The same for waiting for `stream`, if it is captured. */
cudaError_t capture_ends_by_wait(struct phantom_stream *stream);

/* `stream` waits for `event`. */
cudaError_t capture_join(struct phantom_stream *stream,
			 const struct phantom_event *event);

#endif
