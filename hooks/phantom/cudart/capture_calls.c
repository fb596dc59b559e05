#include "capture.h"

PHANTOM_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
	cudaGraph_t graph = graph_new();
	cudaError_t error = capture_begin(stream, graph, mode);

	if (error)
		phantom_handle_end(graph, PHANTOM_GRAPH);
	return error;
}

PHANTOM_API cudaError_t cudaStreamBeginCaptureToGraph(
	cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
	const void *edges, size_t count, int mode)
{
	(void)nodes;
	(void)edges;
	(void)count;
	if (!phantom_handle_is(graph, PHANTOM_GRAPH))
		return cudart_fail(cudaErrorInvalidValue);
	return capture_begin(stream, graph, mode);
}

PHANTOM_API cudaError_t cudaStreamEndCapture(cudaStream_t stream,
					     cudaGraph_t *graph)
{
	return capture_end(stream, graph);
}

PHANTOM_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
	*status = capture_info(stream).status;
	return cudaSuccess;
}

/* A stream has no nodes to depend on: the order of nodes is not kept. */
#if PHANTOM_CUDA_MAJOR == 12
PHANTOM_API cudaError_t cudaStreamGetCaptureInfo_v2(
	cudaStream_t stream, int *status, unsigned long long *id,
	cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count)
#else
PHANTOM_API cudaError_t cudaStreamGetCaptureInfo(
	cudaStream_t stream, int *status, unsigned long long *id,
	cudaGraph_t *graph, const cudaGraphNode_t **nodes, const void **edges,
	size_t *count)
#endif
{
	struct capture_info info = capture_info(stream);

	*status = info.status;
	if (id)
		*id = info.id;
	if (graph)
		*graph = info.graph;
	if (nodes)
		*nodes = NULL;
#if PHANTOM_CUDA_MAJOR != 12
	if (edges)
		*edges = NULL;
#endif
	if (count)
		*count = 0;
	return cudaSuccess;
}
