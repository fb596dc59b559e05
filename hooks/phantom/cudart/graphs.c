#include "abi.h"
#include "graph.h"
#include "graph_content.h"
#include "capture.h"
#include "stream.h"

#include <stdio.h>

/* Stands for every node of its type: a node has nothing else to say. */
static const uint8_t node_types[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

static bool is_graph(cudaGraph_t graph)
{
	return phantom_handle_is(graph, PHANTOM_GRAPH);
}

cudaGraph_t graph_new(void)
{
	return phantom_handle_new(PHANTOM_GRAPH, sizeof(struct phantom_graph));
}

int graph_add(cudaGraph_t graph, enum graph_node type,
	      const struct graph_call *call)
{
	return content_add(&graph->content, type, call);
}

PHANTOM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	if (!is_graph(graph))
		return cudart_fail(cudaErrorInvalidValue);
	content_end(&graph->content);
	phantom_handle_end(graph, PHANTOM_GRAPH);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph,
					  cudaGraphNode_t *nodes, size_t *count)
{
	size_t room = nodes ? *count : 0, have;

	*count = 0;
	if (!is_graph(graph))
		return cudart_fail(cudaErrorInvalidValue);
	have = graph->content.node_count;
	for (size_t i = 0; i < room; i++)
		nodes[i] = i < have ? (cudaGraphNode_t)&node_types
					      [graph->content.nodes[i]] :
				      NULL;
	*count = have;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, int *type)
{
	*type = node ? *(const uint8_t *)node : 0;
	return node ? cudaSuccess : cudart_fail(cudaErrorInvalidValue);
}

/* No node knows of another. */
#if PHANTOM_CUDA_MAJOR == 12
PHANTOM_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
						     cudaGraphNode_t *nodes,
						     size_t *count)
#else
PHANTOM_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
						     cudaGraphNode_t *nodes,
						     void *edges, size_t *count)
#endif
{
#if PHANTOM_CUDA_MAJOR != 12
	(void)edges;
#endif
	(void)node;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = NULL;
	*count = 0;
	return cudaSuccess;
}

static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, int type)
{
	*node = NULL;
	if (!is_graph(graph))
		return cudart_fail(cudaErrorInvalidValue);
	if (type > GRAPH_HOST && type != GRAPH_EMPTY)
		return cudart_fail(cudaErrorNotSupported);
	if (graph_add(graph, type, NULL))
		return cudart_fail(cudaErrorMemoryAllocation);
	*node = (cudaGraphNode_t)&node_types[type];
	return cudaSuccess;
}

/* `params` begins with the type. Nodes that answer something are refused. */
#if PHANTOM_CUDA_MAJOR == 12
PHANTOM_API cudaError_t cudaGraphAddNode(cudaGraphNode_t *node,
					 cudaGraph_t graph, const void *before,
					 size_t count, const int *params)
#else
PHANTOM_API cudaError_t cudaGraphAddNode(cudaGraphNode_t *node,
					 cudaGraph_t graph, const void *before,
					 const void *edges, size_t count,
					 const int *params)
#endif
{
#if PHANTOM_CUDA_MAJOR != 12
	(void)edges;
#endif
	(void)before;
	(void)count;
	return add_node(node, graph, *params);
}

PHANTOM_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node,
					      cudaGraph_t graph,
					      const void *before, size_t count)
{
	(void)before;
	(void)count;
	return add_node(node, graph, GRAPH_EMPTY);
}

PHANTOM_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph,
					       const char *path, unsigned flags)
{
	FILE *file;

	(void)flags;
	if (!is_graph(graph))
		return cudart_fail(cudaErrorInvalidValue);
	file = fopen(path, "w");
	if (!file)
		return cudart_fail(cudaErrorInvalidValue);
	fputs("digraph phantom {\n", file);
	for (size_t i = 0; i < graph->content.node_count; i++)
		fprintf(file, "\tnode%zu [label=\"type %d\"];\n", i,
			graph->content.nodes[i]);
	fputs("}\n", file);
	fclose(file);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec,
						      cudaGraph_t graph,
						      unsigned long long flags)
{
	(void)flags;
	*exec = NULL;
	if (!is_graph(graph))
		return cudart_fail(cudaErrorInvalidValue);
	*exec = phantom_handle_new(PHANTOM_GRAPH_EXEC, sizeof(**exec));
	if (!*exec)
		return cudart_fail(cudaErrorMemoryAllocation);
	if (!content_copy(&(*exec)->content, &graph->content))
		return cudaSuccess;
	content_end(&(*exec)->content);
	phantom_handle_end(*exec, PHANTOM_GRAPH_EXEC);
	*exec = NULL;
	return cudart_fail(cudaErrorMemoryAllocation);
}

PHANTOM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec,
					     cudaGraph_t graph,
					     unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

PHANTOM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec,
					cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!phantom_handle_is(exec, PHANTOM_GRAPH_EXEC) ||
	    !stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (capture_node(stream, GRAPH_KERNEL))
		return cudaSuccess;
	for (size_t i = 0; i < exec->content.call_count; i++)
		exec->content.calls[i].function(exec->content.calls[i].data);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	if (!phantom_handle_is(exec, PHANTOM_GRAPH_EXEC))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	content_end(&exec->content);
	phantom_handle_end(exec, PHANTOM_GRAPH_EXEC);
	return cudaSuccess;
}
