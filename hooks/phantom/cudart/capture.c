#include "capture.h"

#include "lock.h"

#include <errno.h>
#include <stdlib.h>

struct capture {
	struct capture *next;
	uint64_t id;
	const struct phantom_stream *origin;
	cudaGraph_t graph;
	int mode;
	const void *thread; /* the address of a variable of that thread */
	bool invalid;
};

static struct capture *captures; /* those that have begun and not ended */
static uint64_t last_id;
static _Thread_local int thread_mode; /* CAPTURE_MODE_GLOBAL at first */

static struct capture *find(uint64_t id)
{
	struct capture *capture = captures;

	while (capture && capture->id != id)
		capture = capture->next;
	return capture;
}

bool capture_is_active(uint64_t id)
{
	bool active;

	phantom_lock();
	active = find(id) != NULL;
	phantom_unlock();
	return active;
}

uint64_t capture_id(const struct phantom_stream *stream)
{
	return stream->capture && capture_is_active(stream->capture) ?
		       stream->capture :
		       0;
}

/* The graph to put a node in; *invalid: the capture goes nowhere any more. */
static cudaGraph_t graph_of(const struct phantom_stream *stream, bool *invalid)
{
	struct capture *capture = NULL;

	if (!stream || !stream->capture)
		return NULL;
	phantom_lock();
	capture = find(stream->capture);
	*invalid = capture && capture->invalid;
	phantom_unlock();
	return capture ? capture->graph : NULL;
}

static bool add(struct phantom_stream *stream, enum graph_node type,
		const struct graph_call *call)
{
	bool invalid = false;
	cudaGraph_t graph = graph_of(stream, &invalid);

	if (graph && !invalid)
		graph_add(graph, type, call);
	return graph != NULL;
}

bool capture_node(struct phantom_stream *stream, enum graph_node type)
{
	return add(stream, type, NULL);
}

bool capture_host_function(struct phantom_stream *stream, cudaHostFn_t function,
			   void *data)
{
	struct graph_call call = { function, data };

	return add(stream, GRAPH_HOST, &call);
}

/* As the guide's section on the capture modes has it. */
static bool forbids(const struct capture *capture)
{
	bool mine = capture->thread == &thread_mode;

	if (thread_mode == CAPTURE_MODE_RELAXED ||
	    capture->mode == CAPTURE_MODE_RELAXED)
		return false;
	return mine || (thread_mode == CAPTURE_MODE_GLOBAL &&
			capture->mode == CAPTURE_MODE_GLOBAL);
}

cudaError_t capture_forbids(void)
{
	cudaError_t error = cudaSuccess;

	phantom_lock();
	for (struct capture *capture = captures; capture;
	     capture = capture->next)
		if (forbids(capture)) {
			capture->invalid = true;
			error = cudaErrorStreamCaptureUnsupported;
		}
	phantom_unlock();
	return cudart_fail(error);
}

cudaError_t capture_ends_by_wait(struct phantom_stream *stream)
{
	struct capture *capture;

	if (!stream->capture)
		return cudaSuccess;
	phantom_lock();
	capture = find(stream->capture);
	if (capture)
		capture->invalid = true;
	phantom_unlock();
	return capture ? cudart_fail(cudaErrorStreamCaptureUnsupported) :
			 cudaSuccess;
}

cudaError_t capture_join(struct phantom_stream *stream,
			 const struct phantom_event *event)
{
	uint64_t mine = capture_id(stream);
	bool captured = event->capture && capture_is_active(event->capture);

	if (captured && !mine)
		stream->capture = event->capture;
	else if (mine && event->recorded && event->capture != mine)
		return cudart_fail(cudaErrorStreamCaptureIsolation);
	return cudaSuccess;
}

cudaError_t capture_begin(cudaStream_t stream, cudaGraph_t graph, int mode)
{
	struct capture *capture;

	if (!phantom_handle_is(stream, PHANTOM_STREAM) || capture_id(stream))
		return cudart_fail(cudaErrorStreamCaptureUnsupported);
	if (mode < CAPTURE_MODE_GLOBAL || mode > CAPTURE_MODE_RELAXED)
		return cudart_fail(cudaErrorInvalidValue);
	capture = malloc(sizeof(*capture));
	if (!capture || !graph) {
		free(capture);
		return cudart_fail(cudaErrorMemoryAllocation);
	}
	phantom_lock();
	*capture = (struct capture){ captures, ++last_id,    stream, graph,
				     mode,     &thread_mode, false };
	captures = capture;
	stream->capture = capture->id;
	phantom_unlock();
	return cudaSuccess;
}

/* Takes the capture that began in `stream` out of the list; NULL: none did. */
static struct capture *take(const struct phantom_stream *stream)
{
	struct capture **link = &captures, *capture;

	phantom_lock();
	while (*link && (*link)->origin != stream)
		link = &(*link)->next;
	capture = *link;
	if (capture)
		*link = capture->next;
	phantom_unlock();
	return capture;
}

cudaError_t capture_end(cudaStream_t stream, cudaGraph_t *graph)
{
	struct capture *capture = take(stream);
	cudaError_t error = cudaSuccess;

	*graph = NULL;
	if (!capture)
		return cudart_fail(cudaErrorStreamCaptureUnmatched);
	if (capture->invalid) {
		cudaGraphDestroy(capture->graph);
		error = cudaErrorStreamCaptureInvalidated;
	} else {
		*graph = capture->graph;
	}
	free(capture);
	return cudart_fail(error);
}

struct capture_info capture_info(cudaStream_t handle)
{
	struct capture_info info = { .status = CAPTURE_NONE };
	struct phantom_stream *stream;
	struct capture *capture;

	if (!stream_of(handle, &stream) || !stream || !stream->capture)
		return info;
	phantom_lock();
	capture = find(stream->capture);
	if (capture) {
		info.status = capture->invalid ? CAPTURE_INVALIDATED :
						 CAPTURE_ACTIVE;
		info.id = capture->id;
		info.graph = capture->graph;
	}
	phantom_unlock();
	return info;
}

PHANTOM_API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode)
{
	int before = thread_mode;

	if (*mode < CAPTURE_MODE_GLOBAL || *mode > CAPTURE_MODE_RELAXED)
		return cudart_fail(cudaErrorInvalidValue);
	thread_mode = *mode;
	*mode = before;
	return cudaSuccess;
}
