/*
 * CUDA graphs: how many nodes of which kind were captured, and what a launch
 * has to call on the host. Kernels and copies in a graph do nothing.
 */
#ifndef PHANTOM_CUDART_GRAPH_H
#define PHANTOM_CUDART_GRAPH_H

#include "abi.h"
#include "handle.h"

/* enum cudaGraphNodeType */
enum graph_node {
	GRAPH_KERNEL = 0,
	GRAPH_MEMCPY = 1,
	GRAPH_MEMSET = 2,
	GRAPH_HOST = 3,
	GRAPH_EMPTY = 5,
	GRAPH_MEM_ALLOC = 10
};

struct graph_call {
	cudaHostFn_t function;
	void *data;
};

/* A graph and what was instantiated from it: each has its own copy. */
struct graph_content {
	uint8_t *nodes; /* their types, in order */
	size_t node_count;
	struct graph_call *calls;
	size_t call_count;
	cudaUserObject_t *objects; /* one reference each */
	size_t object_count;
};

struct phantom_graph {
	struct phantom_handle head;
	struct graph_content content;
};

struct phantom_graph_exec {
	struct phantom_handle head;
	struct graph_content content;
};

struct phantom_user_object {
	struct phantom_handle head;
	void *data;
	cudaHostFn_t destroy;
	unsigned references;
};

/* NULL: no memory. */
cudaGraph_t graph_new(void);
PHANTOM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/*
 * One more node; `call` is for GRAPH_HOST. Not safe against another thread that
 * captures into the same graph, as with the real one. 0; -ENOMEM.
 */
int graph_add(cudaGraph_t graph, enum graph_node type,
	      const struct graph_call *call);

/* Drops references; the last one calls what the object's owner asked for. */
void user_object_release(cudaUserObject_t object, unsigned count);

#endif
